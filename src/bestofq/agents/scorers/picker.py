"""The picker baseline: ask a language model which candidate is best (Best-of-Q, 5 and Fig. 11). AI feedback asks it for
the best of those that remain, again and again (Agent Q, 5.1.1 and Fig. 4)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bestofq.agents.dialects.json import candidates_user
from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import pick_prompt, render
from bestofq.agents.structured_output import ask, state_prompts
from bestofq.core.counted import attach_usage
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel, Picker, VisionModel
from bestofq.core.usage import Usage, merge_usage

_CHOICE = object_schema({"reasoning": {"type": "string"}, "best": {"type": "integer"}})  # in this order (section 5)


class _Picking:
    async def score(self: Picker, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1. One candidate is not asked about. Errors as the model's."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        best, usage = await self.pick(state, candidates)
        return Scores(values=tuple(float(i == best) for i in range(len(candidates))), usage=(usage,))


@dataclass(frozen=True)
class PickerScorer(_Picking):
    """1 for the candidate the model names, 0 for the others. An answer that names none leaves all at 0, so that a
    greedy selector falls back to the proposer's first; `Usage.unusable` counts it."""

    model: LanguageModel

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        """`Picker`."""
        generation = await self.model.generate(Request(messages=user(pick_prompt(state, candidates)), max_tokens=4))
        found = re.search(r"\d+", generation.replies[0].text)
        return _to_index(int(found.group()) if found else None, len(candidates), generation.usage("critic"))


@dataclass(frozen=True)
class ChatPickerScorer(_Picking):
    """`PickerScorer` by a model that is asked with instructions, over the same candidates (Fig. 11)."""

    model: VisionModel
    screenshots: int = 1  # the last so many

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        """`Picker`."""

        def read(replies: Sequence[Reply], _: Picture | None) -> object:
            return json_of(replies[0]).get("best")

        prompts = state_prompts(
            self.model,
            state,
            Request(messages=(), schema=_CHOICE, name="choice"),
            system=lambda picture: render("picker_system", step=len(state.decisions) + 1, candidates=candidates),
            text=partial(candidates_user, state),
            screenshots=self.screenshots,
        )
        try:
            named, (usage,) = await ask(self.model, prompts, read, "critic", attempts=1)
        except ReplyError as error:
            named, (usage,) = None, error.usage
        return _to_index(named, len(candidates), usage)


def _to_index(number: object, count: int, usage: Usage) -> tuple[int | None, Usage]:
    """The index of candidate `number`, which counts from 1; where it is none of them, counted as unusable."""
    index = next((i for i in range(count) if number in (i + 1, str(i + 1))), None)
    return index, usage if index is not None else usage.model_copy(update={"unusable": 1})


@dataclass(frozen=True)
class FeedbackScorer:
    """Q̂ in [0, 1] from the rank, 1 for the first, evenly down to 0 (the paper leaves it open). A reply that names none
    of the remaining ends the ranking: they share the mean of the places left (`Usage.unusable`)."""

    picker: Picker

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[K], by K - 1 questions to the model; one candidate is worth 1 and not asked about."""
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
        values = tuple(1 - places[i] / (count - 1) for i in range(count))
        return Scores(values=values, usage=merge_usage(usage))
