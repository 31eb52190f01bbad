"""An endpoint that also fails in ways that only a bad or hostile server does."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bestofq.testing.fault_server import STATUSES, FaultServer, error, send

Broken = Literal["reset", "silence", "drip", "garbage", "page", "half", "cut", "shape", "deep", "flood", "elsewhere"]
"""No completion. `drip`: a space now and then, for ever. `garbage`: bytes that are no HTTP. `page`: a proxy's HTML.
`half`: the body stops short of its length. `cut`: its JSON stops short. `shape`: JSON that is no completion, each time
of another shape. `deep`: ten thousand brackets. `flood`: spaces without end. `elsewhere`: a redirect to `other`."""
Odd = Literal[
    "truncated", "empty", "refusal", "nonsense", "uncounted", "miscounted", "overcounted", "surrogate", "braces", "vast"
]
"""A completion of no use. `uncounted`: it has no usage. `miscounted`: its usage is no number. `overcounted`: no call
can have used so much. `surrogate`: half a character. `vast`: JSON that Python's reader cannot bear."""
Fault = (
    Literal["429", "408", "500", "503", "format", "400", "401", "403", "404", "quota", "overflow", "413", "filter"]
    | Broken
    | Odd
)
SHAPES = (
    b"{}",
    b"[]",
    b"7",
    b'{"choices": 7}',
    b'{"choices": [7]}',
    b'{"choices": [{"finish_reason": "length", "message": {"content": 7}}]}',
)
VAST = ("{" * 300_000, '{"candidates": ' * 10_000, '{"candidates": ' + "1" * 5000 + "}", '{"candidates": "\\ud800"}')
UNSUPPORTED = {  # as OpenAI's models since o1 say it
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model, only the default (1).",
    "logprobs": "Unsupported parameter: 'logprobs' is not supported with this model.",
    "seed": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',  # Gemini's
    "n": "'n' : number must be at most 1",  # Groq's
    "return_token_ids": "Unrecognized request argument supplied: return_token_ids",
}
USAGES = {
    "miscounted": {"prompt_tokens": "many", "completion_tokens": "few", "total_tokens": []},
    "overcounted": {"prompt_tokens": -(10**6), "completion_tokens": 10**30, "total_tokens": True},
}


@dataclass(kw_only=True)
class BrokenServer(FaultServer):
    """`refuses` names structured output, or settings, that get a 400. A body of more than `takes` bytes overflows.
    `tokens` gives the tokens of a prompt and of a reply, told as vLLM does, or as SGLang does (`sglang`). With `echo`
    all answers hold the request's Authorization header. `retry_after` is the header with a 429."""

    refuses: Sequence[str] = ()
    takes: int | None = None
    tokens: Callable[[Mapping[str, Any], str], tuple[Sequence[int], Sequence[int]]] | None = None
    sglang: bool = False
    echo: bool = False
    retry_after: str = "0"
    other: str = ""

    async def _answer(self, request: Mapping[str, Any], head: Mapping[str, str], writer: asyncio.StreamWriter) -> bool:
        echo = f" {head.get('authorization')}" if self.echo else ""
        wanted = request.get("response_format", {}).get("type")
        refused = [f"response_format {wanted} is not supported"] if wanted in self.refuses else []
        refused += [text for name, text in UNSUPPORTED.items() if name in request and name in self.refuses]
        if refused:
            self.seen["format"] += 1
            return await send(writer, 400, error(refused[0] + echo))
        if self.takes is not None and int(head["content-length"]) > self.takes:
            fault = "overflow"
            self.seen[fault] += 1
        else:
            fault = self._draw()
        if fault in STATUSES:
            status, message = STATUSES[fault]
            more = [f"Retry-After: {self.retry_after}"] if status == 429 else []
            return await send(writer, status, error(message + echo, fault), more=more)
        match fault:
            case "reset":
                writer.transport.abort()
                return False
            case "silence":
                await asyncio.sleep(3600)
            case "drip":
                await send(writer, 200, b"", length=100_000)
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
                return await send(writer, 307, b"", more=[f"Location: {self.other}/chat/completions"])
            case "page":
                return await send(writer, 200, f"<html>502 from a proxy{echo}</html>".encode(), kind="text/html")
            case "half" | "cut":
                body = json.dumps(self._complete(request, self.reply(request))).encode()
                await send(writer, 200, body[: len(body) // 2], length=len(body) if fault == "half" else None)
                return fault == "cut"
            case "shape":
                return await send(writer, 200, SHAPES[self.seen[fault] % len(SHAPES)])
            case "deep":
                return await send(writer, 200, b"[" * 10_000)
        more = [f"X-Request-Id:{echo}"] if echo else []
        return await send(writer, 200, json.dumps(self._odd(fault, request, echo)).encode(), more=more)

    def _odd(self, fault: str, request: Mapping[str, Any], echo: str) -> dict[str, Any]:
        fixed = {
            "empty": "",
            "nonsense": '{"candidates": 7}' + echo,
            "braces": "{}" + echo,
            "vast": VAST[self.seen[fault] % len(VAST)],
            "surrogate": "what? \ud800",
        }
        if fault in fixed:
            return self._complete({}, fixed[fault])
        if fault == "refusal":
            refusal = self._complete({}, None)
            refusal["choices"][0]["message"]["refusal"] = "I cannot." + echo
            return refusal
        text = self.reply(request)
        text = text[: len(text) // 2] if fault == "truncated" else text + echo
        asked = self.tokens is not None and request.get("return_token_ids")
        prompt, ids = self.tokens(request, text) if self.tokens and asked else ((), text.split())
        log_probs = {} if fault in {*USAGES, "uncounted"} else request
        completion = self._complete(log_probs, text, ids, "length" if fault == "truncated" else "stop")
        if asked:
            [choice] = completion["choices"]
            choice["token_ids"] = ids
            (choice if self.sglang else completion)["prompt_token_ids"] = prompt
        if fault in USAGES:
            completion["usage"] = USAGES[fault]
        elif fault == "uncounted":
            del completion["usage"]
        return completion
