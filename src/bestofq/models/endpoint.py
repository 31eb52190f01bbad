"""An OpenAI-compatible endpoint: its errors, limits and pace."""

import asyncio
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from math import isfinite
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from bestofq.core.errors import ConfigError, ContextError, ModelError, SetupError
from bestofq.core.secrets import hide, keep_secret, keep_secrets_of

BODY_LIMIT = 32 * 2**20  # bytes of an answer: n = 16 replies of 4096 tokens with log-probabilities take a fifth


class OversizedError(ValueError):
    """The answer is longer than `BODY_LIMIT`, or it is compressed although nobody asked for that."""


def http_client(kind: Any, limit: Any) -> Any:
    """A client of the HTTP library that the SDK uses. It follows no redirect and reads at most `BODY_LIMIT` bytes."""
    with client_errors():
        headers, hooks = {"accept-encoding": "identity"}, {"response": [limit]}
        return kind(follow_redirects=False, headers=headers, event_hooks=hooks)


@contextmanager
def client_errors() -> Iterator[None]:
    """SetupError if a client cannot be made, because the environment names no proxy or no certificates."""
    try:
        yield
    except Exception as error:  # each HTTP library has errors of its own
        used = _CERTIFICATES if isinstance(error, OSError) else _PROXIES
        raise SetupError(f"{_variables(used)} cannot be used ({_brief(error)}): correct it, or unset it") from error


_PROXIES, _CERTIFICATES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), ("SSL_CERT_FILE", "SSL_CERT_DIR")


def _variables(names: Iterable[str]) -> str:
    """Those that the environment sets, with their values: "HTTP_PROXY='nonsense'"."""
    values = {name: value for name, value in os.environ.items() if value and name.upper() in names}
    for value in values.values():
        keep_secrets_of(value)
    return " and ".join(f"{name}={hide(value)!r}" for name, value in values.items())


def _no_connection(url: str, failure: str) -> str:
    """What to do about it: the environment's proxy or certificates may be wrong, or the server is not there."""
    parts = urlsplit(url)
    proxies = () if proxy_bypass(parts.netloc) else (f"{parts.scheme.upper()}_PROXY", "ALL_PROXY")
    if used := _variables(_CERTIFICATES if "CERTIFICATE" in failure else proxies):
        return f"no connection with {used} of the environment ({failure}): correct that, or unset it"
    return f"no connection ({failure}): start the server there, or give another base_url"


async def limit_response(response: Any) -> None:
    """`limit_body` as the hook of an asynchronous client."""
    limit_body(response)


def limit_body(response: Any) -> None:
    """Hook of a client: count the body's bytes while they arrive. Raise OversizedError."""
    length = response.headers.get("content-length", "")
    _check_size(int(length) if length.isascii() and length.isdigit() else 0)
    if response.headers.get("content-encoding", "identity") != "identity":
        raise OversizedError("its answer is compressed, which hides its size")
    library: Any = sys.modules[type(response).__module__.partition(".")[0]]  # httpx, or the SDK's own copy
    response.stream = _counted_stream(library)(response.stream)


@cache
def _counted_stream(library: Any) -> Any:
    """A class for each library. One for each response would be garbage that holds a large request for long."""

    class CountedStream(library.AsyncByteStream, library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, source: Any) -> None:
            self._source, self._size = source, 0

        def _count(self, piece: bytes) -> bytes:
            self._size += len(piece)
            _check_size(self._size)
            return piece

        def __iter__(self) -> Iterator[bytes]:
            return map(self._count, self._source)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._source:
                yield self._count(piece)

        async def aclose(self) -> None:
            await self._source.aclose()

        def close(self) -> None:
            self._source.close()

    return CountedStream


def _check_size(size: int) -> None:
    if size > BODY_LIMIT:
        raise OversizedError(f"its answer is longer than {BODY_LIMIT >> 20} MiB")


def address_of(text: str) -> str:
    """The same, if it can be an endpoint's; a password or key in it is a secret from now on. ValueError."""
    keep_secrets_of(text)
    try:
        parts = urlsplit(text)
        fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:  # brackets of no IPv6 address, a port above 65535
        fit = False
    if not fit:
        raise ValueError(f"{hide(text)!r} is no address of an endpoint, such as http://127.0.0.1:8000/v1")
    return text


NEEDS = "tuning needs them: serve the model by vLLM 0.10.2 or later or a current SGLang, or set token_ids=false"
Setting = Literal["max_tokens", "temperature", "logprobs", "seed", "n", "system", "schema"]


@dataclass(frozen=True)
class ApiError:
    """What went wrong in an attempt, and what may be done about it."""

    what: str
    kind: Literal["retry", "overload", "absent", "refused"] = "retry"  # absent: nobody listens
    setting: Setting | None = None  # that the endpoint does not take
    wait: float | None = None  # seconds the endpoint asks for


_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size|limit)|maximum (context|model|prompt)|(input|prompt) length|max_seq_len"
    r"|too (long|many tokens|large (to|for))|exceed.{0,40}token|less than \d+ tokens|inputs\W+tokens",
    re.I,
)
_FILTERED = re.compile(
    r"content.?(filter|policy|management|exists)|moderation|\bflagged\b|inappropriate|safety|prohibited_c|敏感", re.I
)
_NO_SYSTEM = re.compile(
    r"(system|developer) (role|prompt|message|instruction)s?.{0,40}(\bnot\b|unsupported)|roles must alternate"
    r"|role\W{1,3}does not support\W{1,3}system|(unexpected|invalid|unknown|unsupported) role.{0,10}system"
    r"|only user.{0,30}roles are supported",
    re.I,
)
_SETTINGS: Mapping[Setting, re.Pattern[str]] = {  # that OpenAI's models since o1 do not take, and some servers
    "max_tokens": re.compile(r"max_completion_tokens"),  # is its name there
    "temperature": re.compile(
        r"temperature.{0,40}(not support|must|only|deprecated)|(unsupported|unknown|model:).{0,40}temperature", re.I
    ),
    "logprobs": re.compile(r"log_?probs", re.I),
    "seed": re.compile(r"(unknown|unsupported|unrecognized).{0,40}\bseed\b|\bseed\b.{0,40}not (support|permit)", re.I),
    "n": re.compile(  # more than one reply
        r"(?<![\w\\])n\b.{0,40}(at most|less than|(must|should) be|not (support|permit|allow))"
        r"|(un(known|supported|recognized)|only|not support).{0,40}(?<![\w\\])n\b|only one (candidate|ch|completion)",
        re.I,
    ),
}
_FORMAT = re.compile(r"response_format|json_schema|json.?(object|mode)|structured|guided|grammar|schema", re.I)


def api_error_of(error: Exception, where: str, key_variable: str, seconds: float) -> ApiError:
    """Classify an error of a call to the endpoint `where`, which may take so many seconds.

    Raises what another attempt cannot fix: ConfigError, ContextError, and errors that are not an endpoint's.
    """
    import openai  # 0.7 s, which a local model need not wait for

    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return ApiError(f"no answer within {seconds:g} s", "overload")
    if isinstance(error, openai.APIStatusError):
        return _status(error.status_code, error, error.body, error.response.headers, where, key_variable)
    if isinstance(error, ProviderError):
        return _status(error.status, error, error.body, {}, where, key_variable)
    if isinstance(error, OversizedError) or isinstance(error.__cause__, OversizedError):
        return ApiError(_brief(error if isinstance(error, OversizedError) else error.__cause__))
    if isinstance(error, openai.APIConnectionError):
        absent = type(error.__cause__).__name__ == "ConnectError"  # of whichever HTTP library
        failure = _brief(error.__cause__ or error)
        if absent:
            return ApiError(_no_connection(str(error.request.url), failure), "absent")
        return ApiError(f"no connection ({failure})")
    if isinstance(error, ModelError):
        raise ModelError(f"{where}: {error}") from None
    if isinstance(error, ValueError | AttributeError | TypeError | RecursionError):
        return ApiError(f"an answer of another form ({type(error).__name__})")
    raise error


def raise_provider_error(completion: Any) -> None:
    """Raise the error that a provider put into an answer with status 200, and ModelError if it holds no choice."""
    choices = getattr(completion, "choices", None)
    places = (completion, *(choices if isinstance(choices, list) else ()))
    for body in filter(None, (getattr(place, "error", None) for place in places)):
        raise ProviderError(body)
    if choices == []:
        raise ModelError(f"the answer has no choice: {_brief(completion.model_dump_json(exclude_none=True))}")


class ProviderError(Exception):
    """An error in an answer with status 200, such as `{"message": "overloaded", "code": 502}`."""

    def __init__(self, body: Any) -> None:
        fields = body if isinstance(body, dict) else {}
        super().__init__(fields.get("message") or body)
        self.body, code = body, str(fields.get("code"))
        self.status = int(code) if re.fullmatch(r"[45]\d\d", code) else 400


def _status(
    status: int, error: Exception, body: object, headers: Mapping[str, str], where: str, key_variable: str
) -> ApiError:
    said = f"{error} {body or ''}"
    brief = _brief(said if str(error).endswith(str(status)) else error)
    if 300 <= status < 400:
        there = _brief(headers.get("location", "nowhere"))
        raise ConfigError(
            f"{where} sends on to {there}, which is not followed: "
            f"give that address as base_url if you trust it (HTTP {status})"
        ) from None
    if status in (400, 403, 422) and _FILTERED.search(said):
        return ApiError(brief, "refused")
    if status in (400, 422, 500) and _NO_SYSTEM.search(said):
        return ApiError(f"a system message is refused: {brief}", setting="system")
    if status == 429 and "insufficient_quota" not in said:
        return ApiError(f"429, too many requests ({brief})", "overload", wait=_retry_after(headers))
    if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(said)):
        raise ContextError(f"the request is too long for {where}: {brief}") from None
    again = status in (408, 409, 424, 425, 498) or status >= 500  # 498: Groq's for too little capacity
    if again or "failed_generation" in said:  # Groq's word for a reply of another form
        kind: Literal["overload", "retry"] = "overload" if status in (408, 498, 503, 504, 529) else "retry"
        return ApiError(f"HTTP {status} ({brief})", kind, wait=_retry_after(headers))
    if status in (400, 422) and "return_token_ids" in said:
        raise ConfigError(f"{where} does not take return_token_ids; {NEEDS}") from None
    if status in (400, 403, 422) and (setting := next((s for s, sign in _SETTINGS.items() if sign.search(said)), None)):
        return ApiError(f"{setting} is refused: {brief}", setting=setting)
    if status in (400, 422) and _FORMAT.search(said):
        return ApiError(f"no structured output: {brief}", setting="schema")
    fix = {
        401: f"the key is refused: put a valid one into the environment variable {key_variable}",
        403: f"the key may not use it: check what {key_variable} is allowed to do",
        404: "it is not there: check `model` and that `base_url` ends as the endpoint wants it, often in /v1",
        429: f"the quota of the key in {key_variable} is used up",
    }.get(status, "the request is refused: check `model` and what it supports")
    raise ConfigError(f"{where}: {fix} (HTTP {status}: {brief})") from None


def _brief(said: object) -> str:
    return " ".join(hide(str(said)).split())[:200]


_LOGGERS = (  # a filter does not reach child loggers: each that may quote an answer, of either client the SDK takes
    "openai._base_client",
    "openai._response",
    "httpx",
    "httpx2",
    *(f"{client}.{part}" for client in ("httpcore", "httpcore2") for part in ("connection", "http11", "proxy")),
)


class KeyFilter(logging.Filter):
    """Takes the key out of what the SDK and its HTTP client log: at DEBUG they quote what an endpoint answered."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = hide(record.getMessage()), ()
        if record.exc_info:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            record.exc_info, record.exc_text = None, hide(trace)
        return True


_FILTER = KeyFilter()  # a logger keeps the same one once


def key_of(key_variable: str) -> str:
    """The key for a client, kept out of the logs and answers of this process. ConfigError if no request can carry it.
    Line breaks around it, which files and shells leave, do not count."""
    key = os.environ.get(key_variable, "").strip()
    keep_secret(key, f"[{key_variable}]")
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{key_variable} holds more than letters, digits and signs of ASCII: put the key alone there")
    return key or "none"  # local servers want none; the SDK wants a word


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of the Retry-After header: a number, or until a date (RFC 9110, 10.2.3); None where it is neither."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


class RateLimit:
    """Adaptive concurrency (additive increase, multiplicative decrease). After `trip_after` failures in a row one call
    in `cooldown` seconds probes: the run pauses instead of burning episodes, until one succeeds."""

    def __init__(self, most: int, *, trip_after: int = 20, cooldown: float = 15.0) -> None:
        self._most = most
        self._allowed = float(most)
        self._trip_after = trip_after
        self._cooldown = cooldown
        self._in_flight = 0
        self._failures = 0
        self._paused_until = 0.0
        self._cut_at = 0  # calls begun when the allowance was last halved
        self._begun = 0
        self._changed = asyncio.Condition()

    @property
    def allowed(self) -> int:
        return 1 if self.paused else max(1, int(self._allowed))

    @property
    def paused(self) -> bool:
        """Whether the breaker is open: only probes go through."""
        return self._failures >= self._trip_after

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """Waits for a free place; yields the call's number, which `overloaded` wants back."""
        loop = asyncio.get_running_loop()
        async with self._changed:
            while True:
                wait = self._paused_until - loop.time() if self.paused else 0.0
                if wait <= 0 and self._in_flight < self.allowed:
                    break
                try:
                    async with asyncio.timeout(wait if wait > 0 else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                except asyncio.CancelledError:
                    self._changed.notify()  # the place it may have been woken for is another's
                    raise
            self._in_flight += 1
            self._begun += 1
            number = self._begun
        try:
            yield number
        finally:
            async with self._changed:
                self._in_flight -= 1
                self._changed.notify(max(1, self.allowed - self._in_flight))

    def record_success(self) -> None:
        """One more call in flight for about every full round of successes."""
        self._failures = 0
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)

    def record_overload(self, number: int) -> None:
        """Half as many calls in flight; calls that were under way at the last cut do not cut again."""
        if number > self._cut_at:
            self._allowed = max(1.0, self._allowed / 2)
            self._cut_at = self._begun

    def record_failure(self) -> bool:
        """Count a call that got no reply. Return whether it opens the breaker: it is the last of enough in a row."""
        self._failures += 1
        if self.paused:
            self._paused_until = asyncio.get_running_loop().time() + self._cooldown
        return self._failures == self._trip_after
