"""What is asked of a language model and what comes back, whether it runs here or behind an endpoint."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bestofq.core.decision import Role, Usage

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Request:
    """Draw replies to a prompt: the first greedy, unless all are to be sampled, and the others sampled. `one_line`: a
    line break ends a reply too.

    With `beams`, that many likeliest replies instead, by a beam search so wide. `states`: give what the first
    reply was drawn from too.
    """

    prompt: str
    draws: int = 1
    greedy: bool = True  # the first reply
    beams: int = 0
    temperature: float = 1.0
    max_new_tokens: int = 64
    seed: int = 0
    one_line: bool = False
    states: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """`log_prob`: natural log of the probability of the whole reply, its end included, at temperature 1."""

    text: str
    log_prob: float | None  # None: an endpoint that does not say
    ids: tuple[int, ...]  # the tokens as drawn: encoding `text` again may cut it up otherwise; an endpoint gives none
    finished: bool  # False: cut off at max_new_tokens

    @property
    def tokens(self) -> int:
        """How many were drawn."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Generation:
    replies: tuple[Reply, ...]
    prompt_tokens: int
    reply_tokens: int
    calls: int = 1
    usd: float | None = None  # None: the price is not known
    states: "Tensor | None" = (
        None  # [T, D] what the head read when it drew each token of the first reply, where asked for
    )

    def usage(self, role: Role, *, seconds: float) -> Usage:
        return Usage(
            role=role,
            tokens_in=self.prompt_tokens,
            tokens_out=self.reply_tokens,
            calls=self.calls,
            seconds=seconds,
            usd=self.usd,
        )


class LanguageModel(Protocol):
    """Replies to a prompt in its own words: `LocalModel`, or the same behind an endpoint (`EndpointModel`)."""

    @property
    def name(self) -> str: ...

    async def generate(self, request: Request) -> Generation: ...
