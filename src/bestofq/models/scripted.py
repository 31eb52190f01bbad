"""A model with scripted replies, for tests and benchmarks without weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bestofq.core.language import Generation, Reply, Request


@dataclass(frozen=True)
class ScriptedModel:
    """A `LanguageModel` whose replies are a function of the request, the greedy one first. A reply's tokens are its
    bytes, its likelihood falls with its length."""

    replies: Callable[[Request], Sequence[str]]
    name: str = "scripted"

    async def generate(self, request: Request) -> Generation:
        texts = self.replies(request)[: request.draws]
        replies = tuple(Reply(text, -len(text) / 100, tuple(text.encode())) for text in texts)
        return Generation(replies, len(request.prompt.encode()), sum(reply.tokens for reply in replies))
