"""The request to a language model (`Request`) and its replies (`Generation`), here or behind an endpoint."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bestofq.core.observation import Screenshot
from bestofq.core.usage import Role, Usage

Finish = Literal["stop", "truncated", "refused", "empty"]
JsonSchema = Mapping[str, Any]
_WORD = r"(?:seed:)?(?:think|thinking|thoughts?|reason|reasoning|reflection|analysis|scratchpad)"
_BEGIN = re.compile(
    rf"\s*(?:[<◁]\|?{_WORD}\|?[>▷]|\[think\]|<\|(?:channel\|>analysis|begin_of_thought|start_thinking))", re.I
)
_END = re.compile(
    rf"[<◁]\|?/{_WORD}\|?[>▷]|\[/think\]|<\|(?:channel\|>(?:final|commentary).*?<\|message|end_of_thought|end_thinking)\|>",
    re.S | re.I,
)
_SPECIAL = re.compile(
    r"<(?=[|｜]|</?SYS>>|/?(?:s|bos|eos|pad|unk|mask|cls|sep|start|end|image|img|video|audio|think|tool_\w+|\w+_of_\w+)>)"
    r"|\[(?=/?(?:INST|[A-Z]+_[A-Z_]+|IMG|THINK|gMASK|BOS|EOS|UNK|PAD|CLS|SEP|MASK|PREFIX|SUFFIX|MIDDLE)\])"
)


def break_tokens(text: str, special: re.Pattern[str] = _SPECIAL) -> str:
    """Put a blank after the first character of each special token that a text spells: pages must not write turns. By
    default the special tokens of well-known models."""
    return special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


@dataclass(frozen=True, kw_only=True)
class Message:
    """A turn of the conversation; its pictures stand after its text."""

    role: Literal["system", "user", "assistant"]
    text: str
    screenshots: tuple[Screenshot, ...] = ()


def user(text: str, screenshots: tuple[Screenshot, ...] = (), *, system: str | None = None) -> tuple[Message, ...]:
    """The messages of a request that is one prompt, after a system prompt where there is one."""
    question = Message(role="user", text=text, screenshots=screenshots)
    return (question,) if system is None else (Message(role="system", text=system), question)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Draw replies: the first greedy, unless all are sampled.

    A local model reads texts alone. An endpoint that refuses a `schema` replies in free text.
    """

    messages: Sequence[Message]
    n: int = 1
    greedy: bool = True  # the first reply
    temperature: float | None = None  # of what is sampled; None: as the endpoint is configured; of a local model 1
    max_tokens: int | None = None  # of a reply; None: as the endpoint is configured; a local model's own limit
    seed: int | None = None  # None: an endpoint is given none; of a local model 0
    one_line: bool = False  # a line break ends a reply too
    schema: JsonSchema | None = None  # of the reply; None: free text
    name: str = "reply"  # of the schema
    pixels: int | None = None  # of a picture, at most; None: the model's own limit
    log_probs: bool = False  # of the replies; a local model always gives them, an endpoint may give none
    role: Role = "proposer"  # whose usage it is

    @property
    def prompt(self) -> str:
        return "\n".join(message.text for message in self.messages)


def remove_thoughts(reply: str) -> str:
    """Remove the thinking before a reply. Nothing is left if it has no end; if nothing follows the end, all is left."""
    rest = _END.split(reply)[-1]
    return "" if _BEGIN.match(rest) else rest if rest.strip() else reply


def ids_hash(ids: Sequence[int]) -> str:
    """Hash these tokens to 16 hex digits."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Reply:
    """`log_prob`: natural log of the probability of the whole reply, its end included, at temperature 1."""

    text: str
    log_prob: float | None = None  # None: an endpoint that does not say
    ids: tuple[int, ...] = ()  # the tokens as drawn: encoding `text` again may cut it up otherwise; empty: not known
    finish: Finish = "stop"
    counted: int | None = None  # tokens of all replies of a call, by an endpoint's count; None: `ids` are all
    prompt_hash: str | None = None  # `ids_hash` of the tokens it was drawn after; None: an endpoint that does not say
    log_probs: tuple[float, ...] = ()  # of each of `ids`, where a local model drew them

    @property
    def tokens(self) -> int:
        return len(self.ids) if self.counted is None else self.counted

    @property
    def finished(self) -> bool:
        """Whether it came to its end before `max_tokens`."""
        return self.finish != "truncated"


@dataclass(frozen=True, slots=True)
class Generation:
    """The replies to a request and what they took, in the request's role. Seconds include waits and failed attempts."""

    replies: tuple[Reply, ...]
    usage: Usage
