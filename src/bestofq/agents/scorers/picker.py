"""The picker baseline: ask a language model which candidate is best (Best-of-Q, 5 and Fig. 11)."""

import re
import time
from collections.abc import Sequence

from bestofq.agents.prompting import pick_prompt
from bestofq.core.decision import Candidate, Scores, State, Usage
from bestofq.models.local import LocalModel, Request


class PickerScorer:
    """1 for the candidate the model names, 0 for the others. An answer that names none leaves all at 0, so that a
    greedy selector falls back to the proposer's first; `unparsed` counts those."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self.unparsed = 0

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1. One candidate is not asked about."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        started = time.perf_counter()
        generation = await self._model.generate(Request(prompt=pick_prompt(state, candidates), max_new_tokens=4))
        found = re.search(r"\d+", generation.replies[0].text)
        index = int(found.group()) - 1 if found else -1
        if not 0 <= index < len(candidates):
            self.unparsed += 1
            index = -1
        usage = Usage(
            role="critic",
            tokens_in=generation.prompt_tokens,
            tokens_out=generation.replies[0].tokens,
            calls=1,
            seconds=time.perf_counter() - started,
        )
        return Scores(values=tuple(float(i == index) for i in range(len(candidates))), usage=(usage,))
