"""An OpenAI-compatible endpoint that fails as endpoints do, over real HTTP on loopback: a tool for tests.

faults = {"429": 0.3, "500": 0.2, "silence": 0.02}
async with FaultServer(lambda request: '{"candidates": []}', faults, seed=0) as server:
    model = ChatModel(ChatConfig(model="any", base_url=server.base_url))
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, Self

Status = Literal["429", "408", "500", "503", "format", "400", "401", "403", "404", "quota", "overflow", "413"]
"""An error's status and sentence (`_SAID`). `format`: structured output is refused, whatever is asked. `quota`: a 429,
the key has no money left. `overflow`: the context is too short for the request; `413` is the same, said by a proxy."""
Broken = Literal["reset", "silence", "drip", "garbage", "page", "half", "cut", "shape", "deep", "flood", "elsewhere"]
"""No completion. `reset`: the connection is cut without a word. `silence`: it stays open, nothing comes. `drip`: a
space now and then, for ever. `garbage`: bytes that are no HTTP. With status 200, `page`: a proxy's HTML; `half`: the
body stops short of its length; `cut`: its JSON stops short; `shape`: JSON that is no completion, each time of another
shape; `deep`: ten thousand brackets; `flood`: spaces without end. `elsewhere`: the client is sent on to the server's
`other` address."""
Odd = Literal[
    "truncated", "empty", "refusal", "nonsense", "uncounted", "miscounted", "overcounted", "surrogate", "braces", "vast"
]
"""A completion of no use. `truncated`: the reply is cut at max_tokens. `nonsense`: it is not what was asked for.
`uncounted`: it has no usage. `miscounted`: its usage is no number; `overcounted`: one that no call can have.
`surrogate`: half a character, which cannot be sent back. `braces`: empty JSON. `vast`: JSON within the reply that
Python's reader does not bear."""
Fault = Status | Broken | Odd
Refused = Literal[
    "json_schema", "json_object", "max_tokens", "temperature", "logprobs", "seed", "n", "return_token_ids"
]
_SAID: Mapping[str, tuple[int, str]] = {
    "429": (429, "Rate limit reached"),
    "408": (408, "The request came too slowly"),
    "500": (500, "The server had an error"),
    "503": (503, "The engine is overloaded"),
    "format": (400, "response_format is not supported"),
    "400": (400, "Unsupported value: 'model'"),
    "401": (401, "Incorrect API key provided"),
    "403": (403, "The key may not use this model"),
    "404": (404, "The model does not exist"),
    "quota": (429, "You exceeded your current quota"),
    "overflow": (400, "This model's maximum context length is 4096 tokens"),
    "413": (413, "Request Entity Too Large"),
}
_SHAPES = (
    b"{}",
    b"[]",
    b"7",
    b'{"choices": 7}',
    b'{"choices": [7]}',
    b'{"choices": [{"finish_reason": "length", "message": {"content": 7}}]}',
)
_VAST = ("{" * 300_000, '{"candidates": ' * 10_000, '{"candidates": ' + "1" * 5000 + "}", '{"candidates": "\\ud800"}')
_UNSUPPORTED = {  # as OpenAI's models since o1 say it
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model, only the default (1).",
    "logprobs": "Unsupported parameter: 'logprobs' is not supported with this model.",
    "seed": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',  # Gemini's
    "n": "'n' : number must be at most 1",  # Groq's
    "return_token_ids": "Unrecognized request argument supplied: return_token_ids",
}
Tokens = Callable[[Mapping[str, Any], str], tuple[Sequence[int], Sequence[int]]]
"""The tokens of a request's prompt, and those of a reply."""


@dataclass(kw_only=True)
class FaultServer:
    """Answers each request by `reply`, or by a fault drawn with its share in `faults`; `script` goes before both.

    `refuses` names structured output, or settings, that it answers with 400; a body of more than `takes` bytes
    overflows. `requests` holds the bodies as they came, `seen` counts what each was answered with ("ok" or the fault).
    Where it is asked for log-probabilities, it gives each word of a reply, or each of its `tokens`, `log_prob`, or none
    at all. Where it is asked for `return_token_ids`, it tells `tokens` as vLLM does, or as SGLang does (`sglang`), or
    ignores it where there are none. Asked for its models it lists `models`; that counts as no request. With `echo` all
    its answers hold the request's Authorization header, as those of debugging proxies do. `retry_after` is its header
    with a 429.
    """

    reply: Callable[[Mapping[str, Any]], str] = field(kw_only=False)
    faults: Mapping[Fault, float] = field(default_factory=dict, kw_only=False)
    script: Sequence[Fault | Literal["ok"]] = ()
    refuses: Sequence[Refused] = ()
    takes: int | None = None
    seconds: float = 0.0
    log_prob: float | Callable[[Mapping[str, Any]], float] | None = None
    tokens: Tokens | None = None
    sglang: bool = False
    models: Sequence[str] = ()
    echo: bool = False
    retry_after: str = "0"
    other: str = ""
    seed: int = 0
    requests: list[Mapping[str, Any]] = field(init=False, default_factory=list)
    seen: Counter[str] = field(init=False, default_factory=Counter)
    at_once: int = field(init=False, default=0)
    most_at_once: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._script = list(self.script)
        self._rng = random.Random(self.seed)
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def left(self) -> None:
        """Waits until no client is connected: what a killed one had sent is among the `requests` then."""
        while self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        head = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(head.get("content-length", 0))
        request = json.loads(await reader.readexactly(length) or b"{}")
        if lines[0].startswith("GET "):
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "faults"} for name in self.models]
            return await _send(writer, 200, json.dumps({"object": "list", "data": listed}).encode())
        self.requests.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
            too_long = self.takes is not None and length > self.takes
            echo = f" {head.get('authorization')}" if self.echo else ""
            return await self._answer(request, writer, echo, too_long=too_long)
        finally:
            self.at_once -= 1

    async def _answer(
        self, request: Mapping[str, Any], writer: asyncio.StreamWriter, echo: str, *, too_long: bool
    ) -> bool:
        wanted = request.get("response_format", {}).get("type")
        refused = [f"response_format {wanted} is not supported"] if wanted in self.refuses else []
        refused += [said for name, said in _UNSUPPORTED.items() if name in request and name in self.refuses]
        if refused:
            self.seen["format"] += 1
            return await _send(writer, 400, _error(refused[0] + echo))
        fault = "overflow" if too_long else self._draw()
        self.seen[fault] += 1
        if fault in _SAID:
            status, message = _SAID[fault]
            kind = "insufficient_quota" if fault == "quota" else "fault"
            more = [f"Retry-After: {self.retry_after}"] if status == 429 else []
            return await _send(writer, status, _error(message + echo, kind), more=more)
        match fault:
            case "reset":
                writer.transport.abort()
                return False
            case "silence":
                await asyncio.sleep(3600)
            case "drip":
                await _send(writer, 200, b"", length=100_000)
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            case "garbage":
                noise = bytes(self._rng.randrange(256) for _ in range(200))
                writer.write((echo.encode() or noise) + b"\r\n\r\n")
                await writer.drain()
                return False
            case "flood":
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                    await writer.drain()
            case "elsewhere":
                return await _send(writer, 307, b"", more=[f"Location: {self.other}/chat/completions"])
            case "page":
                return await _send(writer, 200, f"<html>502 from a proxy{echo}</html>".encode(), kind="text/html")
            case "half" | "cut":
                body = json.dumps(_completion(self.reply(request))).encode()
                await _send(writer, 200, body[: len(body) // 2], length=len(body) if fault == "half" else None)
                return fault == "cut"
            case "shape":
                return await _send(writer, 200, _SHAPES[self.seen[fault] % len(_SHAPES)])
            case "deep":
                return await _send(writer, 200, b"[" * 10_000)
        completion = self._complete(fault, request, echo)
        return await _send(writer, 200, json.dumps(completion).encode(), echo=echo)

    def _complete(self, fault: str, request: Mapping[str, Any], echo: str) -> dict[str, Any]:
        fixed = {
            "empty": "",
            "nonsense": '{"candidates": 7}' + echo,
            "braces": "{}" + echo,
            "vast": _VAST[self.seen[fault] % len(_VAST)],
            "surrogate": "what? \ud800",
        }
        if fault in fixed:
            return _completion(fixed[fault])
        if fault == "refusal":
            return _completion(None, refusal="I cannot." + echo)
        text = self.reply(request)
        if fault == "truncated":
            text, echo = text[: len(text) // 2], ""
        completion = _completion(text + echo, "length" if fault == "truncated" else "stop")
        ids: Sequence[object] = (text + echo).split()
        if self.tokens is not None and request.get("return_token_ids"):
            prompt, ids = self.tokens(request, text + echo)
            [choice] = completion["choices"]
            choice["token_ids"] = ids
            (choice if self.sglang else completion)["prompt_token_ids"] = prompt
        if fault == "miscounted":
            completion["usage"] = {"prompt_tokens": "many", "completion_tokens": "few", "total_tokens": []}
        elif fault == "overcounted":
            completion["usage"] = {"prompt_tokens": -(10**6), "completion_tokens": 10**30, "total_tokens": True}
        elif fault == "uncounted":
            del completion["usage"]
        elif self.log_prob is not None and request.get("logprobs"):
            log_prob = self.log_prob(request) if callable(self.log_prob) else self.log_prob
            each = [{"token": str(token), "logprob": log_prob, "top_logprobs": []} for token in ids]
            completion["choices"][0]["logprobs"] = {"content": each, "refusal": None}
        return completion

    def _draw(self) -> str:
        if self._script:
            return self._script.pop(0)
        point = self._rng.random()
        for fault, share in self.faults.items():
            point -= share
            if point < 0:
                return fault
        return "ok"


def _completion(text: str | None, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "faults",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def _error(message: str, kind: str = "fault") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": None, "param": None}}).encode()


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    *,
    kind: str = "application/json",
    length: int | None = None,
    echo: str = "",
    more: Sequence[str] = (),
) -> bool:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body) if length is None else length}",
        *([f"X-Request-Id:{echo}"] if echo else []),
        *more,
    ]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return True
