"""The picker baseline: ask a language model which candidate is best (Best-of-Q, 5 and Fig. 11)."""

import re
import time
from collections.abc import Sequence

from bestofq.agents.prompting import candidates_user, pick_prompt, picker_system
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.models.chat import ChatModel, ChatRequest, Message
from bestofq.models.local import Request, TextModel


class PickerScorer:
    """1 for the candidate the model names, 0 for the others. An answer that names none leaves all at 0, so that a
    greedy selector falls back to the proposer's first; `unparsed` counts those."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.unparsed = 0

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1. One candidate is not asked about."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        started = time.perf_counter()
        generation = await self._model.generate(Request(prompt=pick_prompt(state, candidates), max_new_tokens=4))
        found = re.search(r"\d+", generation.replies[0].text)
        values = _only(int(found.group()) if found else 0, len(candidates))
        self.unparsed += not any(values)
        usage = generation.usage("critic", seconds=time.perf_counter() - started)
        return Scores(values=values, usage=(usage,))


class ChatPickerScorer:
    """The same by a chat endpoint, over the same candidates (Fig. 11). Falls back to the first in the same way."""

    def __init__(self, model: ChatModel, *, history: int = 30) -> None:
        self._model = model
        self._history = history
        self.unparsed = 0

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1. One candidate is not asked about. ModelError when the endpoint gives no reply."""
        if len(candidates) == 1:
            return Scores(values=(1.0,))
        shot = state.observation.screenshot
        pictures = (shot,) if shot is not None and shot.data else ()
        reply = await self._model.reply(
            ChatRequest(
                messages=(
                    Message(role="system", text=picker_system(state, candidates)),
                    Message(role="user", text=candidates_user(state, self._history), screenshots=pictures),
                ),
                schema={
                    "type": "object",
                    "properties": {"best": {"type": "integer"}},
                    "required": ["best"],
                    "additionalProperties": False,
                },
                name="choice",
                temperature=0.0,
                max_tokens=200,
            )
        )
        try:
            named = reply.json().get("best")
        except ReplyError:
            named = None
        values = _only(named, len(candidates))
        self.unparsed += not any(values)
        return Scores(values=values, usage=(reply.usage("critic"),))


def _only(number: object, count: int) -> tuple[float, ...]:
    """1 for candidate `number`, which counts from 1, 0 for the others."""
    return tuple(float(i == number) for i in range(1, count + 1))
