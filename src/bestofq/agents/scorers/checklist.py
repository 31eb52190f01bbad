"""A process reward model by checklist (Web-Shepherd, arXiv 2505.15277), by any model with instructions.

The model splits the task into subgoals, once a task, and says of each candidate how far each subgoal is then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bestofq.agents.dialects.json import candidates_user
from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import render
from bestofq.agents.scorers.verifier import Review, Reviewing, review_reply, unusable
from bestofq.agents.structured_output import ask, only, state_prompts
from bestofq.core.counted import attach_usage
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import VisionModel
from bestofq.core.usage import Usage, merge_usage

Items = tuple[str, ...]
_MOST = 10  # subgoals; more would be one a click
_VALUES: Mapping[str, float] = {"yes": 1.0, "in progress": 0.5, "no": 0.0}
_ITEMS = object_schema({"items": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": _MOST}})
_VERDICT = {"type": "string", "enum": list(_VALUES)}


@dataclass(frozen=True)
class ChecklistScorer(Reviewing):
    """A candidate's mean over the checklist: 1 for `yes`, 0.5 for `in progress`, 0 for `no`. One is not asked about.

    The paper's model was trained for it and its reward is the mean probability of these words; here they count as said.
    The checklist of a goal is written once, from the goal alone, and its cost falls on the step that first needs it.
    Replies that cannot be read get one repair turn; then the goal is the only item, or the candidate is worth 0.5, and
    `Usage.unusable` counts it.
    """

    model: VisionModel
    screenshots: int = 1  # the last so many
    _written: dict[str, Items] = field(default_factory=dict, init=False, repr=False, compare=False)  # by goal

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] in [0, 1], by N questions at once. Errors keep the usage."""
        used = await self._write(state.task.goal) if len(candidates) > 1 else ()
        with attach_usage(used):
            scores = await super().score(state, candidates)
        return scores.model_copy(update={"usage": merge_usage((*used, *scores.usage))})

    async def _write(self, goal: str) -> tuple[Usage, ...]:
        if goal in self._written:
            return ()
        request = Request(messages=user(goal, system=render("checklist_system")), schema=_ITEMS, name="checklist")
        try:
            items, usage = await ask(self.model, only(request), _read_items, "critic")
        except ReplyError as error:
            items, usage = (goal,), unusable(error)
        self._written.setdefault(goal, items)
        return usage

    async def _review(self, state: State, candidate: Candidate) -> Review:
        items = self._written[state.task.goal]

        def text(history: int, pictures: int) -> str:  # the candidate last: all questions begin alike
            seen = candidates_user(state, history, pictures)
            return render("progress_user", state=seen, items=items, candidate=candidate)

        def read(replies: Sequence[Reply], _: Picture | None) -> float:
            said = json_of(replies[0]).get("verdicts")
            values = [_VALUES.get(str(one).strip().lower()) for one in said] if isinstance(said, list) else []
            known = [value for value in values if value is not None]
            if len(values) != len(items) or len(known) != len(items):
                raise ReplyError(f'"verdicts" must be {len(items)} of {", ".join(_VALUES)}, one an item')
            return sum(known) / len(known)

        verdicts = {"type": "array", "items": _VERDICT, "minItems": len(items), "maxItems": len(items)}
        schema = object_schema({"reason": {"type": "string"}, "verdicts": verdicts})
        prompts = state_prompts(
            self.model,
            state,
            Request(messages=(), schema=schema, name="progress"),
            system=lambda picture: render("progress_system"),
            text=text,
            screenshots=self.screenshots,
        )
        return await review_reply(self.model, prompts, read)


def _read_items(replies: Sequence[Reply], _: Picture | None) -> Items:
    said = json_of(replies[0]).get("items")
    items = [" ".join(one.split()) for one in said if isinstance(one, str)] if isinstance(said, list) else []
    if not 1 <= len(items) <= _MOST or not all(items):
        raise ReplyError(f'"items" must be a list of 1 to {_MOST} sentences')
    return tuple(items)
