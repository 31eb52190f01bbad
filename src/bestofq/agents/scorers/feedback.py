"""AI feedback: a model ranks the candidates by naming the best of those that remain, again and again (Agent Q, 5.1.1
and Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.counted import counted
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.protocols import Picker
from bestofq.core.usage import Usage, merge_usage


@dataclass(frozen=True)
class FeedbackScorer:
    """Q̂ in [0, 1] from the rank: 1 for the first, 0 for the last, evenly between (the paper leaves the mapping open).

    A reply that names none of the remaining candidates ends the ranking: those share the mean of the places left, a
    tie; `Usage.unusable` counts it.
    """

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
            with counted(usage):
                best, used = await self.picker.pick(state, [candidates[i] for i in remaining])
            usage.append(used)
            if best is None:
                break
            places[remaining.pop(best)] = len(places)
        shared = (len(places) + count - 1) / 2  # the mean of the places that are left
        places |= dict.fromkeys(remaining, shared)
        values = tuple(1 - places[i] / (count - 1) for i in range(count))
        return Scores(values=values, usage=merge_usage(usage))
