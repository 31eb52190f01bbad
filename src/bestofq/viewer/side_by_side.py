"""Two episodes of the same task, step beside step."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from bestofq.reports.costs import Spent
from bestofq.store.catalogue import Head, Wanted
from bestofq.store.records import EpisodeSummary, StepSummary
from bestofq.store.store import Store
from bestofq.viewer.episodes import SIBLINGS, StepView, step_view
from bestofq.viewer.steps import Scores, spent_by_role


@dataclass(frozen=True, kw_only=True)
class Side:
    head: Head
    steps: Sequence[StepSummary]
    views: Sequence[StepView]
    scores: Scores
    spent: Sequence[tuple[str, Spent]]


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """`parted` is the first step at which they do not take the same action; None where they never part."""

    left: Side
    right: Side
    rows: Sequence[tuple[StepView | None, StepView | None]]
    parted: int | None
    others: Sequence[EpisodeSummary]


def side_by_side(store: Store, left: str, right: str) -> SideBySide:
    """404 where one is not there, or they are of different tasks."""
    one, other = _side(store, left), _side(store, right)
    if (task := one.head.summary.slot[:2]) != other.head.summary.slot[:2]:
        raise HTTPException(404, "These two episodes are of different tasks: choose two of the same.")
    longest = max(len(one.views), len(other.views))
    rows = [(_at(one.views, i), _at(other.views, i)) for i in range(longest)]
    pairs = zip(one.steps, other.steps, strict=False)
    same = [a.decision.candidate.label == b.decision.candidate.label for a, b in pairs]
    parted = same.index(False) if False in same else min(len(one.steps), len(other.steps))
    return SideBySide(
        left=one,
        right=other,
        rows=rows,
        parted=parted if parted < max(len(one.steps), len(other.steps)) else None,
        others=store.catalogue.episodes(Wanted(suite=task[0], task=task[1]), limit=SIBLINGS),
    )


def _side(store: Store, episode: str) -> Side:
    head = store.catalogue.head(episode)
    if head is None:
        raise HTTPException(404, f"There is no episode {episode!r} in this store.")
    steps = store.catalogue.steps(episode)
    decisions = [step.decision for step in steps]
    scores = Scores.of(decisions)
    ends = len(steps) + (head.summary.status != "running")
    return Side(
        head=head,
        steps=steps,
        views=[step_view(store, episode, steps, at, scores) for at in range(ends)],
        scores=scores,
        spent=spent_by_role(used for decision in decisions for used in decision.usage),
    )


def _at(views: Sequence[StepView], index: int) -> StepView | None:
    return views[index] if index < len(views) else None
