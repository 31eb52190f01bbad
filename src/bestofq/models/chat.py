"""Any OpenAI-compatible chat endpoint: a hosted model, or your own behind vLLM, SGLang, Ollama or transformers serve.

One call in, one `ChatReply` out: retries, back-off, pacing, deadlines and the ladder of structured output are dealt
with here, and every trouble is told apart here, once (`_trouble`). The SDK's own retries are off.
"""

import asyncio
import base64
import json
import os
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import openai
from pydantic import Field

from bestofq.core.decision import Role, Usage
from bestofq.core.errors import ConfigError, ContextError, ModelError, ReplyError
from bestofq.core.noun import Noun
from bestofq.core.observation import Screenshot
from bestofq.models.pacing import Pace

Finish = Literal["stop", "truncated", "refused", "empty"]
Rung = Literal["json_schema", "json_object", "text"]
LADDER: Sequence[Rung] = ("json_schema", "json_object", "text")
JsonSchema = Mapping[str, Any]
PRICES: Mapping[str, tuple[float, float]] = {  # USD per million tokens, in and out (Best-of-Q, Table 13)
    "gpt-4.1": (2.0, 8.0),
    "qwen2.5-vl-72b": (1.0, 4.0),
    "qwen2.5-vl-7b": (0.15, 0.6),
    "qwen2.5-vl-3b": (0.1, 0.4),
}


class ChatConfig(Noun):
    """One model at one endpoint."""

    model: str = Field(description="the name the endpoint knows it by")
    base_url: str = Field(default="https://api.openai.com/v1", description="of the endpoint, with its /v1")
    key_variable: str = Field(default="OPENAI_API_KEY", description="environment variable that holds the key, if any")
    temperature: float = Field(default=0.7, ge=0)
    max_tokens: int = Field(default=1500, ge=1, description="of a reply")
    deadline: float = Field(default=180.0, gt=0, description="seconds one reply may take, all attempts together")
    attempt: float = Field(default=90.0, gt=0, description="seconds one attempt may take")
    attempts: int = Field(default=8, ge=1, description="tries for one reply")
    backoff: float = Field(default=0.5, gt=0, description="seconds before the second try; doubles, with jitter")
    backoff_most: float = Field(default=30.0, gt=0, description="seconds between tries, at most")
    concurrency: int = Field(default=16, ge=1, description="calls in flight, at most")
    trip_after: int = Field(default=20, ge=1, description="failures in a row after which the run pauses")
    cooldown: float = Field(default=15.0, gt=0, description="seconds of a pause before the endpoint is probed")
    usd_in: float | None = Field(
        default=None, ge=0, description="per million tokens read; none: Table 13, else unknown"
    )
    usd_out: float | None = Field(default=None, ge=0, description="per million tokens written")

    def usd(self, tokens_in: int, tokens_out: int) -> float | None:
        """What a reply costs; None where the price is not known."""
        known = PRICES.get(self.model.rpartition("/")[2].lower().removesuffix("-instruct"), (None, None))
        price_in = known[0] if self.usd_in is None else self.usd_in
        price_out = known[1] if self.usd_out is None else self.usd_out
        if price_in is None or price_out is None:
            return None
        return (tokens_in * price_in + tokens_out * price_out) / 1e6


@dataclass(frozen=True, kw_only=True)
class Message:
    """A turn of the conversation; pictures stand after its text."""

    role: Literal["system", "user", "assistant"]
    text: str
    screenshots: tuple[Screenshot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    messages: Sequence[Message]
    schema: JsonSchema | None = None  # of the reply; None: free text
    name: str = "reply"  # of the schema
    temperature: float | None = None  # None: the config's
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatReply:
    """A reply and what it took, by the endpoint's own counts; `seconds` hold waits and failed attempts too."""

    text: str
    finish: Finish
    tokens_in: int
    tokens_out: int
    attempts: int
    seconds: float
    usd: float | None  # None: the price is not known

    def usage(self, role: Role) -> Usage:
        return Usage(
            role=role,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            calls=1,
            seconds=self.seconds,
            usd=self.usd,
        )

    def json(self) -> Any:
        """The JSON in the text. ReplyError, which says what is wrong in words the model can use."""
        if self.finish == "refused":
            raise ReplyError("the reply was refused")
        if self.finish == "empty":
            raise ReplyError("the reply was empty")
        try:
            return tolerant_json(self.text)
        except ReplyError as error:
            if self.finish == "truncated":
                raise ReplyError(f"the reply was cut off after {self.tokens_out} tokens: be briefer") from error
            raise


@dataclass
class _Trouble:
    """What went wrong in an attempt, and what may be done about it."""

    what: str
    kind: Literal["retry", "overload", "format"] = "retry"
    wait: float | None = None  # seconds the endpoint asks for


@dataclass
class ChatModel:
    """A client for one endpoint, shared by all episodes in flight; leaving its `async with` closes its connections."""

    config: ChatConfig
    rung: Rung = "json_schema"  # goes down as the endpoint refuses; never up
    _client: openai.AsyncOpenAI = field(init=False, repr=False)
    _pace: Pace = field(init=False, repr=False)

    def __post_init__(self) -> None:
        config = self.config
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=os.environ.get(config.key_variable) or "none",  # local servers want none; the SDK wants a word
            max_retries=0,
            timeout=config.attempt,
        )
        self._pace = Pace(config.concurrency, trip_after=config.trip_after, cooldown=config.cooldown)
        self._jitter = random.Random()

    @property
    def name(self) -> str:
        return self.config.model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def reply(self, request: ChatRequest) -> ChatReply:
        """One reply.

        Raises ConfigError where a setting must be mended (key, model, address), ContextError where the request is too
        long for the model, ModelError when the attempts or the deadline are spent.
        """
        began = time.monotonic()
        spent, waits, attempt = 0.0, 0.0, 0
        trouble = _Trouble("it was not tried")
        while attempt < self.config.attempts and spent < self.config.deadline:
            attempt += 1
            rung = self.rung
            async with self._pace.turn() as number:
                started = time.monotonic()
                try:
                    async with asyncio.timeout(min(self.config.attempt, self.config.deadline - spent)):
                        completion = await self._client.chat.completions.create(**self._arguments(request, rung))
                    reply = _read(completion)
                except Exception as error:
                    trouble = _trouble(error, self.config)
                else:
                    self._pace.succeeded()
                    return ChatReply(
                        **reply,
                        attempts=attempt,
                        seconds=round(time.monotonic() - began, 4),
                        usd=self.config.usd(reply["tokens_in"], reply["tokens_out"]),
                    )
                finally:
                    spent += time.monotonic() - started
                if trouble.kind == "overload":
                    self._pace.overloaded(number)
                if trouble.kind != "format":
                    self._pace.failed()
            if trouble.kind == "format":
                if request.schema is None or rung == "text":
                    raise ConfigError(f"{self.config.model} at {self.config.base_url}: {trouble.what}")
                self._step_down(rung)
                attempt -= 1  # the endpoint cannot do it: finding that out is not a failed attempt
                continue
            pause = self._pause(attempt, trouble)
            waits += pause
            if waits > self.config.deadline:
                break
            await asyncio.sleep(pause)
        raise ModelError(
            f"{self.config.model} at {self.config.base_url} gave no reply in {attempt} attempts and "
            f"{time.monotonic() - began:.0f} s (last: {trouble.what})"
        )

    def _step_down(self, rung: Rung) -> None:
        if self.rung == rung:
            self.rung = LADDER[LADDER.index(rung) + 1]

    def _pause(self, attempt: int, trouble: _Trouble) -> float:
        """Seconds until the next try: what the endpoint asks, else exponential with full jitter."""
        if trouble.wait is not None:
            return trouble.wait * (1 + 0.1 * self._jitter.random())
        longest = min(self.config.backoff_most, self.config.backoff * 2.0 ** (attempt - 1))
        return longest * (0.5 + 0.5 * self._jitter.random())

    def _arguments(self, request: ChatRequest, rung: Rung) -> dict[str, Any]:
        config = self.config
        found: dict[str, Any] = {
            "model": config.model,
            "messages": [_message(message) for message in request.messages],
            "temperature": config.temperature if request.temperature is None else request.temperature,
            "max_tokens": request.max_tokens or config.max_tokens,
        }
        if request.seed is not None:
            found["seed"] = request.seed
        if request.schema is not None and rung == "json_schema":
            schema = {"name": request.name, "schema": dict(request.schema), "strict": True}
            found["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and rung == "json_object":
            found["response_format"] = {"type": "json_object"}
        return found


def tolerant_json(text: str) -> Any:
    """The first JSON object in a text that may hold a fence or words around it. ReplyError when there is none."""
    decoder = json.JSONDecoder(strict=False)  # line breaks within strings are let pass
    problem = "the reply holds no JSON object"
    for start in (found.start() for found in re.finditer(r"\{", text)):
        try:
            return decoder.raw_decode(text, start)[0]
        except json.JSONDecodeError as error:
            problem = f"the reply is not valid JSON: {error.msg} at character {error.pos}"
            if error.pos >= len(text.rstrip()) - 1:
                break  # it stops short: what stands within it is not the reply
    raise ReplyError(problem)


def _message(message: Message) -> dict[str, Any]:
    if not message.screenshots:
        return {"role": message.role, "content": message.text}
    pictures = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:{shot.media_type};base64,{base64.b64encode(shot.data).decode()}"},
        }
        for shot in message.screenshots
    ]
    return {"role": message.role, "content": [{"type": "text", "text": message.text}, *pictures]}


def _read(completion: Any) -> dict[str, Any]:
    """Text, finish and tokens of a completion, or ModelError where it is none."""
    choices = getattr(completion, "choices", None)
    if not choices:
        raise ModelError("the endpoint's answer is no chat completion")
    choice = choices[0]
    text = getattr(choice.message, "content", None) or ""
    refused = getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter"
    finish: Finish = "stop"
    if refused:
        finish = "refused"
    elif choice.finish_reason == "length":
        finish = "truncated"
    elif not text.strip():
        finish = "empty"
    usage = getattr(completion, "usage", None)
    return {
        "text": text,
        "finish": finish,
        "tokens_in": getattr(usage, "prompt_tokens", None) or 0,
        "tokens_out": getattr(usage, "completion_tokens", None) or 0,
    }


_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too (long|many tokens)|exceed.{0,40}token", re.I
)
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured|guided|grammar|schema", re.I)


def _trouble(error: Exception, config: ChatConfig) -> _Trouble:
    """The one place where errors are told apart. Raises what no further attempt can mend."""
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return _Trouble(f"no answer within {config.attempt:g} s", "overload")
    if isinstance(error, openai.APIStatusError):
        return _status(error, config)
    if isinstance(error, openai.APIConnectionError):
        return _Trouble(f"no connection ({error.__cause__ or error.message})")
    if isinstance(error, openai.APIError | ModelError | ValueError | AttributeError | TypeError):
        return _Trouble(f"an answer that is no chat completion ({type(error).__name__})")
    raise error


def _status(error: openai.APIStatusError, config: ChatConfig) -> _Trouble:
    status, said = error.status_code, f"{error.message} {error.body or ''}"
    where = f"{config.model} at {config.base_url}"
    if status == 429 and "insufficient_quota" not in said:
        return _Trouble("429, too many requests", "overload", wait=_retry_after(error))
    if status in (408, 409) or status >= 500:
        return _Trouble(f"HTTP {status}", "overload" if status in (408, 503, 504) else "retry", _retry_after(error))
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(said)):
        raise ContextError(f"the request is too long for {where}: {_brief(error)}") from error
    if status in (400, 422) and _FORMAT.search(said):
        return _Trouble(f"no structured output: {_brief(error)}", "format")
    mend = {
        401: f"the key is refused: put a valid one into the environment variable {config.key_variable}",
        403: f"the key may not use it: check what {config.key_variable} is allowed to do",
        404: "it is not there: check `model` and that `base_url` ends as the endpoint wants it, often in /v1",
        429: f"the quota of the key in {config.key_variable} is used up",
    }.get(status, f"the request is refused ({_brief(error)}): check `model` and what it supports")
    raise ConfigError(f"{where}: {mend} (HTTP {status})") from error


def _brief(error: openai.APIStatusError) -> str:
    return " ".join(error.message.split())[:200]


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds of the Retry-After header, where it holds a number."""
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None
