"""The verifier baseline: the proposing model's own review of each candidate; nothing is learned.

A pocket model writes the review that Q reads as a vector if `model.embed.context` is `review` (`EmbeddingTexts`). An
oracle taught it to write reviews, so this agent shows how much of Best-of-Q's gain comes from them. Any other model
gets instructions and gives a verdict.
"""

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.json import candidates_user
from bestofq.agents.embedding_texts import REVIEW_TOKENS
from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import render, review_prompt
from bestofq.agents.structured_output import Prompts, Reader, ask, state_prompts
from bestofq.core.counted import attach_usage
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel, VisionModel
from bestofq.core.usage import Usage, merge_usage

_VERDICT = re.compile(r"\b(right|wrong)\W*$")
_UNCLEAR = 0.5
_VALUES = {"right": 1.0, "wrong": 0.0, "unclear": _UNCLEAR}
_REVIEW = object_schema({"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(_VALUES)}})
Review = tuple[float, tuple[Usage, ...]]
"""What a candidate is worth, and what its review used."""


class Reviewing(ABC):
    """What scores candidates by a question about each."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] in [0, 1], by N reviews at once; one candidate is not asked about. Errors keep the usage."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        started = time.perf_counter()
        written = await asyncio.gather(
            *(self._review(state, candidate) for candidate in candidates), return_exceptions=True
        )
        done = [one for one in written if not isinstance(one, BaseException)]
        used = [usage for _, usages in done for usage in usages]
        failed = next((one for one in written if isinstance(one, BaseException)), None)
        if failed is not None:
            with attach_usage(used):
                raise failed
        (total,) = merge_usage(used)
        usage = total.model_copy(update={"seconds": time.perf_counter() - started})  # they were written at once
        return Scores(values=tuple(value for value, _ in done), usage=(usage,))

    @abstractmethod
    async def _review(self, state: State, candidate: Candidate) -> Review: ...


@dataclass(frozen=True)
class VerifierScorer(Reviewing):
    """1 for a candidate whose review ends with `right`, 0 for `wrong`, 0.5 for any other review (`moves on`). A greedy
    selector takes the first of equals, which is the proposer's likeliest."""

    model: LanguageModel

    async def _review(self, state: State, candidate: Candidate) -> Review:
        messages = user(review_prompt(state, candidate))
        written = await self.model.generate(Request(messages=messages, max_tokens=REVIEW_TOKENS, one_line=True))
        return verdict_value(written.replies[0].text), (written.usage("critic"),)


@dataclass(frozen=True)
class ChatVerifierScorer(Reviewing):
    """`VerifierScorer` by a model with instructions: 1 for `right`, 0.5 for `unclear`, 0 for `wrong`, of one candidate
    with its thought. Without a verdict after one repair turn: `unclear`, counted in `Usage.unusable`."""

    model: VisionModel
    screenshots: int = 1  # the last so many

    async def _review(self, state: State, candidate: Candidate) -> Review:
        def text(history: int, pictures: int) -> str:  # the candidate last: all reviews begin alike
            return render("verifier_user", state=candidates_user(state, history, pictures), candidate=candidate)

        prompts = state_prompts(
            self.model,
            state,
            Request(messages=(), schema=_REVIEW, name="review"),
            system=lambda picture: render("verifier_system"),
            text=text,
            screenshots=self.screenshots,
        )
        return await review_reply(self.model, prompts, _read)


async def review_reply(model: LanguageModel, prompts: Prompts, read: Reader[float]) -> Review:
    """What the reader reads of the model's reply; 0.5 where none can be read."""
    try:
        return await ask(model, prompts, read, "critic")
    except ReplyError as error:
        return _UNCLEAR, unusable(error)


def unusable(error: ReplyError) -> tuple[Usage, ...]:
    """What a question took that no reply to can be read."""
    (used,) = error.usage
    return (used.model_copy(update={"unusable": 1}),)


def _read(replies: Sequence[Reply], _: Picture | None) -> float:
    said = str(json_of(replies[0]).get("verdict", "")).strip().lower()
    if said not in _VALUES:
        raise ReplyError(f'"verdict" is {said!r}: it must be one of {", ".join(_VALUES)}')
    return _VALUES[said]


def verdict_value(review: str) -> float:
    """Of the word that a review ends with: `right` 1, `wrong` 0, any other 0.5."""
    found = _VERDICT.search(review.strip())
    return _VALUES[found[1]] if found else _UNCLEAR
