"""Any OpenAI-compatible chat endpoint: a hosted model, or your own behind vLLM, SGLang, Ollama or transformers serve.

One request in, one `Generation` out: retries, back-off, pacing, deadlines and what an endpoint does not take are dealt
with here. Pictures are resized on this side (`images.py`). The SDK's own retries are off.
"""

import asyncio
import json
import logging
import random
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from bestofq.core.errors import ConfigError, ContextError, ModelError, SetupError
from bestofq.core.frozen import FrozenModel
from bestofq.core.language import Finish, Generation, Message, Reply, Request, break_tokens, ids_hash, user
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Coordinates, Picture, PictureLimits
from bestofq.core.secrets import hide
from bestofq.core.usage import Usage, attach_usage, merge_usage, token_count
from bestofq.models import endpoint
from bestofq.models.endpoint import Setting
from bestofq.models.images import image_part, limits_of, resize
from bestofq.models.prices import UNKNOWN, Budget, Price, price_of

if TYPE_CHECKING:  # an agent at an endpoint needs no PyTorch
    from bestofq.models.local import PromptTokens

log = logging.getLogger(__name__)

HERE = "local"  # in the place of an address
STARTING = 10.0  # seconds that a server may need until it is there
ATTEMPT_SHARE = 0.5  # of the deadline of a reply, for one attempt at a fast endpoint
FIRST_SHARE = 4.0  # of the deadline, for an attempt at an endpoint of unknown speed, which may load a model
SLOWER = 1.5  # times as long as all tokens of a reply take at the speed of the slowest reply of late
WAIT_SECONDS = 20.0  # after which a line says what is awaited
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 30.0  # before the second try, which doubles; between tries at most
TRIP_AFTER, COOLDOWN_SECONDS = 20, 15.0  # failures in a row after which the run pauses; before it probes the endpoint

APART = 0.1  # nats between two answers for one token: more than bfloat16 and other batches make
_FILTERED = re.compile("content.?filter|safety|prohibited|recitation|blocklist|spii|sensitive|refusal", re.I)
_WORD = "Name any number between 1 and 100. Reply with the number alone."  # many first tokens are about as likely


class ChatConfig(FrozenModel):
    """One model at one endpoint, or loaded here."""

    model: str = Field(description="the name the endpoint knows it by; with local: directory or hub name")
    base_url: Annotated[str, AfterValidator(lambda text: text if text == HERE else endpoint.address_of(text))] = Field(
        default="https://api.openai.com/v1",
        description="of the endpoint, with its /v1; local: the model is loaded here and reads texts alone; no setting "
        "below applies to it (not of `chat`: a local model that proposes is `model.path`)",
    )
    key_variable: str = Field(default="OPENAI_API_KEY", description="environment variable that holds the key, if any")
    concurrency: int = Field(default=16, ge=1, description="calls in flight, at most")
    temperature: float = Field(default=0.7, ge=0, description="of every draw but the greedy first")
    max_tokens: int = Field(default=1500, ge=1, description="of a reply")
    deadline: float = Field(
        default=180.0,
        gt=0,
        description="seconds one reply may take, half of them for one attempt; longer before the first reply, and for "
        "an endpoint that writes slowly",
    )
    pixels_most: int | None = Field(default=None, ge=1, description="of a picture sent. Default: by the model's name")
    coordinates: Coordinates | None = Field(default=None, description="of its answers. Default: by the model's name")
    usd_in: float | None = Field(default=None, ge=0, description="per million tokens read. Default: genai-prices'")
    usd_out: float | None = Field(default=None, ge=0, description="per million tokens written. Default: genai-prices'")
    token_ids: bool = Field(
        default=False,
        description="ask for the tokens of composite actions (`return_token_ids` of vLLM and SGLang): for tuning",
    )

    @property
    def place(self) -> str:
        return f"{self.model} at {hide(self.base_url)}"

    @property
    def limits(self) -> PictureLimits:
        """Of the pictures sent: those of the model's family (`images.FAMILIES`) where nothing else is set."""
        own = {"most": self.pixels_most, "coordinates": self.coordinates}
        own = {name: value for name, value in own.items() if value is not None}
        return PictureLimits(**{**limits_of(self.model).model_dump(), **own})

    @property
    def attempt(self) -> float:
        return ATTEMPT_SHARE * self.deadline

    @model_validator(mode="after")
    def _pictures_possible(self) -> Self:
        _ = self.limits
        return self

    def price(self) -> Price:
        """Return the price set here, else that of genai-prices; unknown for a local model."""
        if self.base_url == HERE:
            return UNKNOWN
        own = {name: usd for name in Price._fields if (usd := getattr(self, name)) is not None}
        return price_of(self.model)._replace(**own)


@dataclass
class ChatModel(AbstractAsyncContextManager["ChatModel"]):
    """A client for one endpoint, shared by all episodes in flight; leaving its `async with` closes its connections."""

    config: ChatConfig
    budget: Budget = field(default_factory=Budget)  # shared by the endpoints of a command
    refused: frozenset[Setting] = frozenset()  # what the endpoint does not take; grows as it says so
    attempts: int = 8  # for one reply

    def __post_init__(self) -> None:
        config = self.config
        if config.base_url == HERE:
            raise ConfigError(
                f"{config.model} is behind an endpoint: give its base_url; a local model that proposes is "
                "model.path, or --model alone"
            )
        import openai  # 0.7 s, which a local model need not wait for

        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=endpoint.key_of(config.key_variable),
            max_retries=0,
            timeout=openai.Timeout(None, connect=config.attempt),
            http_client=endpoint.http_client(openai.DefaultAsyncHttpxClient, endpoint.limit_response),
        )
        self._pace = endpoint.RateLimit(config.concurrency, trip_after=TRIP_AFTER, cooldown=COOLDOWN_SECONDS)
        self._price = config.price()
        if self.budget.limit < inf and None in self._price:
            raise ConfigError(
                f"--budget {self.budget.limit:g} cannot be kept: the price of {config.model} is not known; set usd_in "
                "and usd_out of its endpoint, USD per million tokens (--set endpoints.NAME.usd_in=…)"
            )
        self._began: float | None = None  # of the first call
        self._met = False  # whether somebody was ever there
        self._dearest = 0.0  # USD, of the replies so far: what one costs of which the endpoint does not say it
        self._speeds: deque[float] = deque(maxlen=8)  # tokens a second, of the last replies
        self._waiting = 0.0  # when a line last said what is awaited
        self._resize, self._jitter = lru_cache(64)(resize), random.Random()

    @classmethod
    def at(cls, base_url: str, model: str, *, attempts: int = 8, **settings: object) -> Self:
        """The model of that name at an endpoint; `settings` are `ChatConfig`'s."""
        return cls(ChatConfig.model_validate({"base_url": base_url, "model": model, **settings}), attempts=attempts)

    @property
    def name(self) -> str:
        return self.config.model

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def list_models(self) -> list[str] | None:
        """The models that the endpoint lists, None if it lists none or llama.cpp serves one, whatever its name. Asks
        no model. ConfigError if the key or the address is refused, ModelError if nobody answers."""
        import openai

        try:
            async with asyncio.timeout(self.config.attempt):
                listed = (await self._client.models.list()).data
                return [m.id for m in listed if len(listed) > 1 or getattr(m, "owned_by", "") != "llamacpp"] or None
        except (openai.NotFoundError, AttributeError, TypeError):  # it answers, and has no such list
            return None
        except Exception as error:
            raise ModelError(f"{self.config.place}: {self._error_of(error, self.config.attempt).what}") from error

    async def picture(self, screenshot: Screenshot, pixels: int | None = None) -> Picture:
        """The screenshot as a request with these `pixels` sends it; maps points of a reply to the page."""
        return await asyncio.to_thread(self._resize, screenshot, self.config.limits.within(pixels))

    async def generate(self, request: Request) -> Generation:
        """Return the draws of a request.

        Greedy decoding is a call of its own, at temperature 0. The other draws come from one call with `n`. An endpoint
        that ignores or refuses `n` gets a call for each, with the next seed. What a seed means is up to the endpoint.

        Errors carry what earlier calls used. BudgetError: the budget is spent. ConfigError: a setting must change (key,
        model, address). ContextError: the request is too long. ModelError: the attempts or the deadline are spent.
        SetupError: nobody was there by then, or for `STARTING` seconds.
        """
        generations: list[Generation] = []
        with attach_usage(one.usage for one in generations):
            replies: list[Reply] = []
            if request.greedy:
                replies += (await self._call_whole(replace(request, n=1), generations))[:1]
            while missing := request.n - len(replies):
                seed = None if request.seed is None else request.seed + len(generations) - request.greedy
                drawn = await self._call_whole(replace(request, greedy=False, n=missing, seed=seed), generations)
                replies += drawn[:missing]
        if request.one_line:
            replies = [replace(reply, text=reply.text.partition("\n")[0]) for reply in replies]
        [usage] = merge_usage(one.usage for one in generations)
        return Generation(tuple(replies), usage)

    async def _call_whole(self, request: Request, generations: list[Generation]) -> Sequence[Reply]:
        """Return the replies of one call, or of a second with twice the token limit if one with a schema was cut and
        does not repeat itself. Add the calls to `generations`."""
        generations.append(await self._call(request))
        replies = generations[-1].replies
        if request.schema is not None and any(not r.finished and r.text.count(r.text[-40:]) < 8 for r in replies):
            longer = replace(request, max_tokens=2 * (request.max_tokens or self.config.max_tokens))
            with suppress(ContextError):
                generations.append(await self._call(longer))
        return generations[-1].replies

    async def _call(self, request: Request) -> Generation:
        """The replies of one call, its first all greedy or all sampled; errors as `generate`."""
        began = time.monotonic()
        self._began = self._began or began
        where = self.config.place
        spent, waits, attempt = 0.0, 0.0, 0
        failure = endpoint.ApiError("it was not tried")
        messages = [await self._message(message, request.pixels) for message in request.messages]
        while attempt < self.attempts and spent < max(self.config.deadline, self._limit(request)):
            attempt += 1
            refused = self.refused
            async with self._pace.turn() as number:
                self.budget.check()
                started = time.monotonic()
                try:
                    completion = await self._wait(self._arguments(request, messages, refused), request)
                    found = self._read(completion, request)
                except Exception as error:
                    failure = self._error_of(error, time.monotonic() - started)
                else:
                    self._met, used = True, found.usage
                    tokens = used.tokens_out or sum(len(reply.text) for reply in found.replies) / 4
                    self._speeds.append(max(1.0, tokens) / max(0.001, time.monotonic() - started))
                    self._pace.record_success()
                    self._dearest = max(self._dearest, used.usd or 0.0)
                    if used.usd is None and not self._dearest and self.budget.limit < inf:
                        raise ConfigError(
                            f"--budget {self.budget.limit:g} cannot be kept: {where} does not say how many tokens "
                            "a reply took; have it report usage, or leave --budget out"
                        )
                    self.budget.spent += self._dearest if used.usd is None else used.usd
                    seconds = round(time.monotonic() - began, 4)
                    return replace(found, usage=used.model_copy(update={"seconds": seconds}))
                finally:
                    spent += time.monotonic() - started
                if failure.kind == "refused":  # the page is filtered, and would be again
                    refusal = Reply(failure.what, counted=0, finish="refused")
                    return Generation((refusal,) * request.n, Usage(role=request.role, calls=1))
                if failure.kind == "overload":
                    self._pace.record_overload(number)
                if failure.setting is None and self._pace.record_failure():
                    log.warning(
                        "%s fails again and again (last: %s): the run pauses and probes it", where, failure.what
                    )
            self._met |= failure.kind != "absent"
            if not self._met and time.monotonic() - self._began > STARTING:
                break
            if failure.setting is not None:
                if failure.setting in refused:
                    raise ConfigError(f"{where}: {failure.what}")
                if failure.setting == "temperature" and failure.setting not in self.refused:
                    log.warning("%s takes no temperature: it draws at its own, where 0 was asked for too", where)
                self.refused |= {failure.setting}
                attempt -= 1  # the endpoint cannot do it: finding that out is not a failed attempt
                continue
            pause = self._pause(attempt, failure)
            waits += pause
            if waits > self.config.deadline:
                break
            await asyncio.sleep(pause)
        if failure.kind == "absent" and not self._met:
            raise SetupError(f"{where}: {failure.what}")
        raise ModelError(
            f"{where} gave no reply in {attempt} attempts and {time.monotonic() - began:.0f} s (last: {failure.what})"
        )

    def _limit(self, request: Request) -> float:
        """Seconds that an attempt may take, by the speed of earlier replies."""
        if not self._speeds:
            return FIRST_SHARE * self.config.deadline
        most = (request.max_tokens or self.config.max_tokens) * request.n
        return max(self.config.attempt, SLOWER * most / min(self._speeds))

    async def _wait(self, arguments: Mapping[str, Any], request: Request) -> Any:
        """Return the completion. TimeoutError after `_limit`, which other replies may change meanwhile."""
        began = time.monotonic()
        asking = asyncio.ensure_future(self._client.chat.completions.create(**arguments))
        try:
            while (left := self._limit(request) - (time.monotonic() - began)) > 0:
                if (await asyncio.wait({asking}, timeout=min(left, WAIT_SECONDS)))[0]:
                    return asking.result()
                now = time.monotonic()
                if now - max(began, self._waiting) >= WAIT_SECONDS:
                    self._waiting = now
                    limit = self._limit(request)
                    log.warning("waiting for %s: %.0f s of at most %.0f", self.config.place, now - began, limit)
            raise TimeoutError
        finally:
            if asking.cancel():
                await asyncio.wait({asking})

    def _error_of(self, error: Exception, seconds: float) -> endpoint.ApiError:
        return endpoint.api_error_of(error, self.config.place, self.config.key_variable, round(seconds, 1))

    def _pause(self, attempt: int, failure: endpoint.ApiError) -> float:
        """Seconds until the next try: what the endpoint asks for, if more than 0; else exponential with jitter."""
        if failure.wait:
            return failure.wait * (1 + 0.1 * self._jitter.random())
        longest = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** (attempt - 1))
        return longest * (0.5 + 0.5 * self._jitter.random())

    async def _message(self, message: Message, pixels: int | None) -> dict[str, Any]:
        if not message.screenshots:
            return {"role": message.role, "content": break_tokens(message.text)}
        parts = [image_part(await self.picture(screenshot, pixels)) for screenshot in message.screenshots]
        return {"role": message.role, "content": [{"type": "text", "text": break_tokens(message.text)}, *parts]}

    def _arguments(self, request: Request, messages: Sequence[dict[str, Any]], refused: Set[Setting]) -> dict[str, Any]:
        config = self.config
        if "system" in refused:
            messages = _merge_system(messages)
        limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        found: dict[str, Any] = {
            "model": config.model,
            "messages": messages,
            limit: request.max_tokens or config.max_tokens,
        }
        if "temperature" not in refused:
            sampled = config.temperature if request.temperature is None else request.temperature
            found["temperature"] = 0.0 if request.greedy else sampled
        if request.seed is not None and "seed" not in refused:
            found["seed"] = request.seed % 2**31  # some servers read 32 bits
        if request.n > 1 and "n" not in refused:
            found["n"] = request.n
        if request.log_probs and "logprobs" not in refused:
            found["logprobs"] = True
        if request.log_probs and config.token_ids:
            found["extra_body"] = {"return_token_ids": True}
        if request.schema is not None and "schema" not in refused:
            schema = {"name": request.name, "schema": dict(request.schema), "strict": True}
            found["response_format"] = {"type": "json_schema", "json_schema": schema}
        return found

    def _read(self, completion: Any, request: Request) -> Generation:
        """Replies and tokens of a completion; without a price if tokens were not counted. Errors as
        `raise_provider_error`, and if token ids are wanted as `_drawn_tokens`."""
        endpoint.raise_provider_error(completion)
        choices = completion.choices
        usage = getattr(completion, "usage", None)
        counts = [token_count(getattr(usage, f"{kind}_tokens", None)) for kind in ("prompt", "completion")]
        read, written = (count or 0 for count in counts)
        replies = [_reply(choice, written) for choice in choices]
        if self.config.token_ids and request.log_probs:
            told = (_drawn_tokens(completion, choice, self.config.place) for choice in choices)
            replies = [replace(reply, **tokens) for reply, tokens in zip(replies, told, strict=True)]
        usd = None if None in counts else self._price.usd(read, written)
        usage = Usage(role=request.role, tokens_in=read, tokens_out=written, calls=1, usd=usd)
        return Generation(tuple(replies), usage)


def _merge_system(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    system, *rest = messages
    if system["role"] != "system":
        return messages
    begun, content = system["content"], rest[0]["content"]
    merged = f"{begun}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": begun}, *content]
    return [{**rest[0], "content": merged}, *rest[1:]]


def _text_of(message: Any, *, whole: bool) -> str:
    """The content, in one text or in parts, then the tool calls as JSON. If there is neither: `whole` reasoning."""
    content = message.content or ""
    if isinstance(content, list):
        parts = (part if isinstance(part, dict) else {"text": part} for part in content)
        said = (part for part in parts if part.get("type") not in ("thinking", "reasoning"))
        content = "".join(part.get("text") or "" for part in said)
    called = [getattr(call, "function", None) for call in getattr(message, "tool_calls", None) or ()]
    calls: list[Any] = [call for call in (*called, getattr(message, "function_call", None)) if call is not None]
    if calls:
        content += json.dumps([{"name": call.name, "arguments": call.arguments} for call in calls])
    if content.strip():
        return str(content)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    return reasoning if whole and isinstance(reasoning, str) else ""


def _reply(choice: Any, tokens: int) -> Reply:
    refusal = getattr(choice.message, "refusal", None)
    ended = str(choice.finish_reason)
    cut = re.search("length|max_?(output_?)?tokens", ended, re.I)
    text = refusal or _text_of(choice.message, whole=not cut)
    text = hide(text).encode(errors="replace").decode()
    refused = refusal or _FILTERED.search(ended)
    finish: Finish = "refused" if refused else "truncated" if cut else "stop" if text.strip() else "empty"
    drawn = getattr(getattr(choice, "logprobs", None), "content", None)
    return Reply(text, sum(one.logprob for one in drawn) if drawn else None, (), finish, tokens)


def _drawn_tokens(completion: Any, choice: Any, where: str) -> dict[str, Any]:
    """Return what a `Reply` keeps of a choice's drawn tokens: ids, their log-probability, `ids_hash` of the prompt.

    `return_token_ids` asks for them: of vLLM from 0.10.2 (the prompt's are in the completion), of SGLang from July 2026
    (the prompt's are in the choice). ConfigError if the server gave none, or not one log-probability for each token.
    """
    ids = getattr(choice, "token_ids", None)
    prompt = getattr(completion, "prompt_token_ids", None) or getattr(choice, "prompt_token_ids", None)
    if ids is None or prompt is None:
        raise ConfigError(f"{where} ignores return_token_ids and gave no token ids; {endpoint.NEEDS}")
    log_probs = [one.logprob for one in getattr(getattr(choice, "logprobs", None), "content", None) or ()]
    if len(log_probs) != len(ids):
        count = f"{len(log_probs)} log-probabilities (logprobs) of {len(ids)} tokens"
        raise ConfigError(f"{where} gave {count}; {endpoint.NEEDS}")
    return {"ids": tuple(map(int, ids)), "log_prob": sum(log_probs), "prompt_hash": ids_hash(prompt)}


async def check_token_ids(model: ChatModel, temperature: float, setting: str, tokens: "PromptTokens | None") -> None:
    """Raise ConfigError if a server cannot give what tuning needs. It draws one token, at most nine times.

    Tuning needs token ids, the prompt that `tokens` make, and log-probabilities at temperature 1: DPO's reference is
    π_ref(a|h) (Agent Q, Eq. 5). SGLang gives them at the temperature of its draws, and so does vLLM with
    `--logprobs-mode processed_logprobs`. At temperature 0 servers answer as at 1. `setting` names `temperature`.
    """
    n, prompt = 1 if temperature == 1 else 9, user(_WORD)
    ask = Request(messages=prompt, n=n, max_tokens=1, temperature=temperature, seed=0, log_probs=True)
    greedy, *draws = (await model.generate(ask)).replies
    if tokens is not None and greedy.prompt_hash != ids_hash(tokens.encode(*prompt)):
        raise ConfigError(
            f"{model.name} at {model.config.base_url} reads a prompt as other tokens than the chat template of "
            f"{tokens.name} make of it, and tuning needs the same: set model.path to the checkpoint that is served"
        )
    for reply in draws:
        if reply.ids == greedy.ids and abs((reply.log_prob or 0) - (greedy.log_prob or 0)) > APART:
            raise ConfigError(
                f"{model.name} at {model.config.base_url} gives log-probabilities at the sampling temperature "
                f"{temperature:g} ({reply.log_prob:.2f} for a token that has {greedy.log_prob:.2f}), and tuning needs "
                "them at 1: start vLLM with --logprobs-mode raw_logprobs, SGLang with the environment variable "
                f"SGLANG_RETURN_ORIGINAL_LOGPROB=1, or set {setting}=1"
            )
