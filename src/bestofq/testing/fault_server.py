"""An OpenAI-compatible endpoint that fails as endpoints do, over real HTTP on loopback: a tool for tests.

faults = {"429": 0.3, "500": 0.2, "silence": 0.02}
async with FaultServer(lambda request: '{"candidates": []}', faults, seed=0) as server:
    model = ChatModel(ChatConfig(model="any", base_url=server.base_url))
"""

import asyncio
import contextlib
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

STATUSES: Mapping[str, tuple[int, str]] = {  # faults that are an error's status and sentence
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
    "filter": (400, "The prompt was filtered by the content management policy"),
}


@dataclass(kw_only=True)
class FaultServer:
    """Answer each request by `reply`, or by a fault that is drawn with its share in `faults`.

    `reply` gives the text of the completion, from the request's body. A request for embeddings gets vectors by hash
    instead. Faults are the names of `STATUSES`. "reset" cuts the connection; "silence" keeps it open and sends nothing;
    "empty" is a completion without text; "truncated" cuts a reply at max_tokens.
    """

    reply: Callable[[Mapping[str, Any]], str] = field(kw_only=False)
    faults: Mapping[str, float] = field(default_factory=dict, kw_only=False)
    script: Sequence[str] = ()  # the first answers, each a fault or "ok"
    seconds: float = 0.0  # before each answer
    log_prob: float | Callable[[Mapping[str, Any]], float] | None = None  # of each word, for requests that ask for it
    models: Sequence[str] = ()  # names that a request for the models lists
    seed: int = 0
    requests: list[Mapping[str, Any]] = field(init=False, default_factory=list)  # the bodies
    seen: Counter[str] = field(init=False, default_factory=Counter)  # answers, "ok" or the fault
    most_at_once: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._script, self._rng, self._at_once = list(self.script), random.Random(self.seed), 0
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def left(self) -> None:
        """Wait until no client is connected. `requests` then holds what a killed client sent."""
        while self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._read(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; returns whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        head = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        request = json.loads(await reader.readexactly(int(head.get("content-length", 0))) or b"{}")
        if lines[0].startswith("GET "):
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "faults"} for name in self.models]
            return await send(writer, 200, json.dumps({"object": "list", "data": listed}).encode())
        self.requests.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(self.seconds)
            return await self._answer(request, head, writer)
        finally:
            self._at_once -= 1

    async def _answer(self, request: Mapping[str, Any], head: Mapping[str, str], writer: asyncio.StreamWriter) -> bool:
        fault = self._draw()
        if fault in STATUSES:
            status, message = STATUSES[fault]
            more = ["Retry-After: 0"] if status == 429 else []
            return await send(writer, status, error(message, fault), more=more)
        if fault == "reset":
            writer.transport.abort()
            return False
        if fault == "silence":
            await asyncio.sleep(3600)
        text = "" if fault == "empty" else self.reply(request)
        text, finish = (text[: len(text) // 2], "length") if fault == "truncated" else (text, "stop")
        return await send(writer, 200, json.dumps(self._complete(request, text, text.split(), finish)).encode())

    def _complete(
        self, request: Mapping[str, Any], text: str | None, tokens: Sequence[object] = (), finish: str = "stop"
    ) -> dict[str, Any]:
        """A completion, with the log-probability of each token if the request asks for it. Embeddings of its input."""
        if "input" in request:
            return _embed(request["input"])
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}}
        if self.log_prob is not None and request.get("logprobs"):
            log_prob = self.log_prob(request) if callable(self.log_prob) else self.log_prob
            each = [{"token": str(token), "logprob": log_prob, "top_logprobs": []} for token in tokens]
            choice["logprobs"] = {"content": each, "refusal": None}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        what = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "faults", "usage": usage}
        return {**what, "choices": [{**choice, "finish_reason": finish}]}

    def _draw(self) -> str:
        answers = {"ok": max(0.0, 1.0 - sum(self.faults.values())), **self.faults}
        fault = self._script.pop(0) if self._script else self._rng.choices([*answers], [*answers.values()])[0]
        self.seen[fault] += 1
        return fault


def _embed(texts: Sequence[str]) -> dict[str, Any]:
    vectors = [[byte / 255 for byte in hashlib.sha256(text.encode()).digest()] for text in texts]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), sum(len(text.split()) for text in texts))
    return {"object": "list", "model": "faults", "data": data, "usage": usage}


def error(message: str, fault: str = "") -> bytes:
    kind = "insufficient_quota" if fault == "quota" else "fault"
    return json.dumps({"error": {"message": message, "type": kind, "code": None, "param": None}}).encode()


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    *,
    kind: str = "application/json",
    length: int | None = None,
    more: Sequence[str] = (),
) -> bool:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body) if length is None else length}",
        *more,
    ]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return True
