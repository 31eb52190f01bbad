"""The verifier baseline: the proposing model's own review of each candidate, read as words; nothing is learned.

The review is the one that Q reads as a vector where `embed_context` is `review` (`EmbeddingTexts`). A pocket model was
taught by an oracle to write it, so this agent shows how much of Best-of-Q's gain there is the reviews' own.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.embedding_texts import REVIEW_TOKENS
from bestofq.agents.prompting import review_prompt
from bestofq.core.counted import counted
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.language import Request, user
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import merge_usage

_VERDICT = re.compile(r"\b(right|wrong)\W*$")
_VALUES = {"right": 1.0, "wrong": 0.0}
_UNCLEAR = 0.5


@dataclass(frozen=True)
class VerifierScorer:
    """1 for a candidate whose review ends with `right`, 0 for `wrong`, 0.5 for any other review (`moves on`). A greedy
    selector takes the first of equals, which is the proposer's likeliest."""

    model: LanguageModel

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0, 0.5 and 1, by N reviews at once. One candidate is worth 1 and not asked about. An error has what
        the other reviews used."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        started = time.perf_counter()
        requests = (
            Request(messages=user(review_prompt(state, c)), max_tokens=REVIEW_TOKENS, one_line=True) for c in candidates
        )
        written = await asyncio.gather(*map(self.model.generate, requests), return_exceptions=True)
        reviews = [one for one in written if not isinstance(one, BaseException)]
        failed = next((one for one in written if isinstance(one, BaseException)), None)
        if failed is not None:
            with counted(review.usage("critic") for review in reviews):
                raise failed
        (used,) = merge_usage(review.usage("critic") for review in reviews)
        usage = used.model_copy(update={"seconds": time.perf_counter() - started})  # they were written at once
        return Scores(values=tuple(verdict_value(review.replies[0].text) for review in reviews), usage=(usage,))


def verdict_value(review: str) -> float:
    """Of the word that a review ends with: `right` 1, `wrong` 0, any other 0.5."""
    found = _VERDICT.search(review.strip())
    return _VALUES[found[1]] if found else _UNCLEAR
