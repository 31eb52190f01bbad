"""Errors of an endpoint, classified in one place."""

import logging
import os
import re
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Annotated, Literal
from urllib.parse import urlsplit

import openai
from pydantic import AfterValidator

from bestofq.core.errors import ConfigError, ContextError, ModelError
from bestofq.core.secrets import hide, keep_secret, keep_secrets_of
from bestofq.models.bounds import OversizedError
from bestofq.models.token_ids import NEEDS


def address_of(text: str) -> str:
    """The same, if it can be an endpoint's; a password or key in it is a secret from now on. ValueError."""
    keep_secrets_of(text)
    try:
        parts = urlsplit(text)
        fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets of no IPv6 address, a port above 65535
        fit = False
    if not fit:
        raise ValueError(f"{hide(text)!r} is no address of an endpoint, such as http://127.0.0.1:8000/v1")
    return text


Address = Annotated[str, AfterValidator(address_of)]
"""Of an endpoint. What can be none is refused before anything is tried, and tried again."""


Setting = Literal["max_tokens", "temperature", "logprobs", "seed", "n"]


@dataclass(frozen=True)
class ApiError:
    """What went wrong in an attempt, and what may be done about it."""

    what: str
    kind: Literal["retry", "overload", "absent", "format", "setting"] = "retry"  # absent: nobody listens there
    setting: Setting | None = None  # that the endpoint does not take
    wait: float | None = None  # seconds the endpoint asks for


_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too (long|many tokens)|exceed.{0,40}token", re.I
)
_SETTINGS: Mapping[Setting, re.Pattern[str]] = {  # that OpenAI's models since o1 do not take, and some servers
    "max_tokens": re.compile(r"max_completion_tokens"),  # is its name there
    "temperature": re.compile(r"temperature.{0,40}not support|unsupported.{0,40}temperature", re.I),
    "logprobs": re.compile(r"log_?probs", re.I),
    "seed": re.compile(r"(unknown|unsupported|unrecognized).{0,40}\bseed\b|\bseed\b.{0,40}not (support|permit)", re.I),
    "n": re.compile(  # more than one reply
        r"(?<![\w\\])n\b.{0,40}(at most|less than|(must|should) be|not (support|permit|allow))"
        r"|(unknown|unsupported|unrecognized|only).{0,40}(?<![\w\\])n\b|only one (candidate|choice|completion)",
        re.I,
    ),
}
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured|guided|grammar|schema", re.I)


def api_error_of(error: Exception, *, where: str, key_variable: str, attempt: float) -> ApiError:
    """The one place where errors are distinguished. `where` names model and endpoint, `attempt` the seconds it had.
    Raises what no further attempt can fix: ConfigError, ContextError, and what is no error of an endpoint at all."""
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return ApiError(f"no answer within {attempt:g} s", "overload")
    if isinstance(error, openai.APIStatusError):
        return _status(error, where, key_variable)
    if isinstance(error, OversizedError) or isinstance(error.__cause__, OversizedError):
        return ApiError(_brief(error if isinstance(error, OversizedError) else error.__cause__, key_variable))
    if isinstance(error, openai.APIConnectionError):
        absent = type(error.__cause__).__name__ == "ConnectError"  # of whichever HTTP library
        what = f"no connection ({_brief(error.__cause__ or error, key_variable)})"
        return ApiError(what, "absent" if absent else "retry")
    if isinstance(error, ModelError | ValueError | AttributeError | TypeError | RecursionError):
        return ApiError(f"an answer that is no chat completion ({type(error).__name__})")
    raise error


def _status(error: openai.APIStatusError, where: str, key_variable: str) -> ApiError:
    status, said = error.status_code, f"{error.message} {error.body or ''}"
    if 300 <= status < 400:
        there = _brief(error.response.headers.get("location", "nowhere"), key_variable)
        raise ConfigError(
            f"{where} sends on to {there}, which is not followed: "
            f"give that address as base_url if you trust it (HTTP {status})"
        ) from None
    if status == 429 and "insufficient_quota" not in said:
        return ApiError("429, too many requests", "overload", wait=_retry_after(error))
    if status in (408, 409) or status >= 500:
        return ApiError(
            f"HTTP {status}", "overload" if status in (408, 503, 504) else "retry", wait=_retry_after(error)
        )
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(said)):
        raise ContextError(f"the request is too long for {where}: {_brief(error, key_variable)}") from None
    if status in (400, 422) and "return_token_ids" in said:
        raise ConfigError(f"{where} does not take return_token_ids; {NEEDS}") from None
    if status in (400, 403, 422) and (setting := next((s for s, sign in _SETTINGS.items() if sign.search(said)), None)):
        return ApiError(f"{setting} is refused: {_brief(error, key_variable)}", "setting", setting)
    if status in (400, 422) and _FORMAT.search(said):
        return ApiError(f"no structured output: {_brief(error, key_variable)}", "format")
    fix = {
        401: f"the key is refused: put a valid one into the environment variable {key_variable}",
        403: f"the key may not use it: check what {key_variable} is allowed to do",
        404: "it is not there: check `model` and that `base_url` ends as the endpoint wants it, often in /v1",
        429: f"the quota of the key in {key_variable} is used up",
    }.get(status, f"the request is refused ({_brief(error, key_variable)}): check `model` and what it supports")
    raise ConfigError(f"{where}: {fix} (HTTP {status})") from None


def _brief(said: object, key_variable: str) -> str:
    return " ".join(without_key(str(said), key_variable).split())[:200]


def without_key(text: str, key_variable: str) -> str:
    """Endpoints may echo what they were sent: the key is taken out of all that is kept of an answer."""
    _secret_of(key_variable)
    return hide(text)


def _secret_of(key_variable: str) -> str:
    """The key, hidden from now on; files and shells leave line breaks around one."""
    key = os.environ.get(key_variable, "").strip()
    keep_secret(key, f"[{key_variable}]")
    return key


_LOGGERS = (  # a filter does not reach child loggers: each that may quote an answer, of either client the SDK takes
    "openai._base_client",
    "openai._response",
    "httpx",
    "httpx2",
    *(f"{client}.{part}" for client in ("httpcore", "httpcore2") for part in ("connection", "http11", "proxy")),
)


@dataclass(frozen=True)
class KeyFilter(logging.Filter):
    """Takes the key out of what the SDK and its HTTP client log: at DEBUG they quote what an endpoint answered."""

    key_variable: str

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_key(record.getMessage(), self.key_variable), ()
        if record.exc_info:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            record.exc_info, record.exc_text = None, without_key(trace, self.key_variable)
        return True


def key_of(key_variable: str) -> str:
    """The key for a client, kept out of the logs of this process. ConfigError where no request can carry it."""
    key = _secret_of(key_variable)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(KeyFilter(key_variable))
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{key_variable} holds more than letters, digits and signs of ASCII: put the key alone there")
    return key or "none"  # local servers want none; the SDK wants a word


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds of the Retry-After header: a number, or until a date (RFC 9110, 10.2.3); None where it is neither."""
    said = error.response.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None
