"""Baselines that ask a language model about the candidates. Nothing is learned.

The picker names the best (Best-of-Q, 5 and Fig. 11). AI feedback asks it for the best of those that remain, again and
again (Agent Q, 5.1.1 and Fig. 4). The verifier reviews each candidate. A pocket model writes the review that Q reads as
a vector with `model.embed.context=review` (`EmbeddingTexts`). An oracle taught it to, so the verifier shows how much of
Best-of-Q's gain there comes from the reviews themselves. Any other model gets instructions and replies in JSON.
"""

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bestofq.agents.dialects.json import candidates_user
from bestofq.agents.embedding_texts import REVIEW_TOKENS
from bestofq.agents.json_replies import object_schema, to_number
from bestofq.agents.prompting import pick_prompt, render, review_prompt
from bestofq.agents.structured_output import ask_json, state_prompts
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import JsonSchema, Request, user
from bestofq.core.protocols import LanguageModel, Picker, VisionModel
from bestofq.core.usage import Usage, attach_usage, merge_usage

T = TypeVar("T")
Reader = Callable[[dict[str, Any]], T]
_CHOICE = object_schema({"reasoning": {"type": "string"}, "best": {"type": "integer"}})  # in this order (section 5)
_VERDICT = re.compile(r"\b(right|wrong)\W*$")
_UNCLEAR = 0.5
_VALUES = {"right": 1.0, "wrong": 0.0, "unclear": _UNCLEAR}
_REVIEW = object_schema({"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(_VALUES)}})


@dataclass(frozen=True)
class _ChatCritic:
    """A model that follows instructions."""

    model: VisionModel
    screenshots: int = 1  # the last so many

    async def _ask(
        self, state: State, read: Reader[T], *, name: str, schema: JsonSchema, attempts: int, **values: object
    ) -> tuple[T | None, Usage]:
        """What `read` makes of the reply to the prompts of that name, with these values. None after as many `attempts`
        that cannot be read: `Usage.unusable`."""

        def text(history: int, pictures: int) -> str:  # what is asked comes last: all questions begin alike
            return render(f"{name}_user", state=candidates_user(state, history, pictures), **values)

        prompts = state_prompts(
            self.model,
            state,
            Request(messages=(), schema=schema, name=name),
            system=lambda _: render(f"{name}_system"),
            text=text,
            screenshots=self.screenshots,
        )
        answer, (usage,) = await ask_json(self.model, prompts, read, "critic", lambda _: None, attempts=attempts)
        return answer, count_unusable(usage, answer)


def count_unusable(usage: Usage, answer: object) -> Usage:
    """The usage of a question, unusable if its answer is None."""
    return usage.model_copy(update={"unusable": 1}) if answer is None else usage


class _Picking:
    async def score(self: Picker, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1. A single candidate needs no question. Errors as the model's."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        best, usage = await self.pick(state, candidates)
        return Scores(values=tuple(float(i == best) for i in range(len(candidates))), usage=(usage,))


@dataclass(frozen=True)
class PickerScorer(_Picking):
    """1 for the candidate the model names, 0 for the others. After an answer that names none all have 0, so that a
    greedy selector takes the proposer's first. `Usage.unusable` counts it."""

    model: LanguageModel

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        messages = user(pick_prompt(state, candidates))
        generation = await self.model.generate(Request(messages=messages, max_tokens=4, role="critic"))
        number = re.search(r"\d+", generation.replies[0].text)
        index = _to_index(int(number.group()) if number else None, len(candidates))
        return index, count_unusable(generation.usage, index)


@dataclass(frozen=True)
class ChatPickerScorer(_ChatCritic, _Picking):
    """`PickerScorer` for a model that follows instructions, over the same candidates (Fig. 11)."""

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        def read(data: dict[str, Any]) -> int | None:
            return _to_index(to_number(data.get("best")), len(candidates))

        step = len(state.decisions) + 1
        return await self._ask(state, read, name="picker", schema=_CHOICE, attempts=1, step=step, candidates=candidates)


def _to_index(number: object, count: int) -> int | None:
    """The index of candidate `number`, counted from 1. None if there is no such candidate."""
    return next((i for i in range(count) if number == i + 1), None)


@dataclass(frozen=True)
class FeedbackScorer:
    """Q̂ in [0, 1] from the rank, 1 for the first, evenly down to 0 (the paper leaves it open). A reply that names no
    remaining candidate ends the ranking: they share the mean of the places left (`Usage.unusable`)."""

    picker: Picker

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[K], by K - 1 questions to the model. A single candidate is worth 1 without a question."""
        count = len(candidates)
        if count == 1:
            return Scores(values=(1.0,))
        places: dict[int, float] = {}
        usage: list[Usage] = []
        remaining = list(range(count))
        while len(remaining) > 1:
            with attach_usage(usage):
                best, used = await self.picker.pick(state, [candidates[i] for i in remaining])
            usage.append(used)
            if best is None:
                break
            places[remaining.pop(best)] = len(places)
        shared = (len(places) + count - 1) / 2  # the mean of the places that are left
        places |= dict.fromkeys(remaining, shared)
        return Scores(values=tuple(1 - places[i] / (count - 1) for i in range(count)), usage=merge_usage(usage))


class _Reviewing(ABC):
    @abstractmethod
    async def review(self, state: State, candidate: Candidate) -> tuple[float, Usage]:
        """What a candidate is worth, and the usage of its review."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] in [0, 1], by N reviews at once. A single candidate needs no review. Errors carry the usage."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        started = time.perf_counter()
        reviews = await asyncio.gather(*(self.review(state, c) for c in candidates), return_exceptions=True)
        done = [review for review in reviews if not isinstance(review, BaseException)]
        with attach_usage(usage for _, usage in done):
            for error in reviews:
                if isinstance(error, BaseException):
                    raise error
        (total,) = merge_usage(usage for _, usage in done)
        seconds = time.perf_counter() - started  # the reviews overlap
        return Scores(values=tuple(value for value, _ in done), usage=(total.model_copy(update={"seconds": seconds}),))


@dataclass(frozen=True)
class VerifierScorer(_Reviewing):
    """1 for a candidate whose review ends with `right`, 0 for `wrong`, 0.5 for any other review (`moves on`). Among
    equals a greedy selector takes the first, which is the proposer's likeliest."""

    model: LanguageModel

    async def review(self, state: State, candidate: Candidate) -> tuple[float, Usage]:
        prompt = user(review_prompt(state, candidate))
        request = Request(messages=prompt, max_tokens=REVIEW_TOKENS, one_line=True, role="critic")
        generation = await self.model.generate(request)
        return verdict_value(generation.replies[0].text), generation.usage


@dataclass(frozen=True)
class ChatVerifierScorer(_ChatCritic, _Reviewing):
    """`VerifierScorer` for a model that follows instructions: 1 for `right`, 0.5 for `unclear`, 0 for `wrong`, of one
    candidate with its thought. Without a verdict after one repair turn: `unclear`, counted in `Usage.unusable`."""

    async def review(self, state: State, candidate: Candidate) -> tuple[float, Usage]:
        value, usage = await self._ask(
            state, _read_verdict, name="verifier", schema=_REVIEW, attempts=2, candidate=candidate
        )
        return _UNCLEAR if value is None else value, usage


def _read_verdict(data: dict[str, Any]) -> float:
    verdict = str(data.get("verdict", "")).strip().lower()
    if verdict not in _VALUES:
        raise ReplyError(f'"verdict" is {verdict!r}: it must be one of {", ".join(_VALUES)}')
    return _VALUES[verdict]


def verdict_value(review: str) -> float:
    """1 for a review that ends with `right`, 0 for `wrong`, 0.5 for any other."""
    verdict = _VERDICT.search(review.strip())
    return _VALUES[verdict[1]] if verdict else _UNCLEAR
