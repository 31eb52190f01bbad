"""Ranking by asking for the best of what remains (Agent Q, Fig. 4)."""

from collections.abc import Callable, Sequence

import pytest

from bestofq.agents.scorers.critics import FeedbackScorer
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.observation import Observation, Task
from bestofq.core.usage import Usage

STATE = State(
    task=Task(id="t", suite="s", goal="g", start_url="u"),
    observation=Observation(url="u", title="t", text="x", elements=()),
)
CANDIDATES = [Candidate(action=Click(mark=m), label=f"click {m}") for m in (1, 2, 3, 4)]


class Asked:
    """A picker that follows a rule and remembers what it was asked."""

    def __init__(self, rule: Callable[[Sequence[int]], int | None]) -> None:
        self.rule = rule
        self.asked: list[list[int]] = []

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        marks = [c.action.mark for c in candidates if isinstance(c.action, Click) and c.action.mark]
        self.asked.append(marks)
        index = self.rule(marks)
        return index, Usage(role="critic", calls=1, tokens_in=10, unusable=1 if index is None else None)


async def test_the_best_of_the_remaining_is_asked_for_until_all_are_ranked() -> None:
    picker = Asked(lambda marks: marks.index(max(marks)))
    scores = await FeedbackScorer(picker).score(STATE, CANDIDATES)
    assert picker.asked == [[1, 2, 3, 4], [1, 2, 3], [1, 2]]
    assert scores.values == pytest.approx((0.0, 1 / 3, 2 / 3, 1.0))
    assert scores.usage == (Usage(role="critic", calls=3, tokens_in=30),)


async def test_nonsense_leaves_the_rest_tied_and_is_counted() -> None:
    picker = Asked(lambda marks: marks.index(3) if 3 in marks else None)
    scores = await FeedbackScorer(picker).score(STATE, CANDIDATES)
    assert scores.values == pytest.approx((1 / 3, 1 / 3, 1.0, 1 / 3))
    assert scores.usage == (Usage(role="critic", calls=2, tokens_in=20, unusable=1),)
    nothing = await FeedbackScorer(Asked(lambda marks: None)).score(STATE, CANDIDATES)
    assert nothing.values == (0.5,) * 4
    assert nothing.usage == (Usage(role="critic", calls=1, tokens_in=10, unusable=1),)


async def test_one_candidate_is_not_asked_about() -> None:
    picker = Asked(lambda marks: 0)
    assert await FeedbackScorer(picker).score(STATE, CANDIDATES[:1]) == Scores(values=(1.0,))
    assert picker.asked == []
