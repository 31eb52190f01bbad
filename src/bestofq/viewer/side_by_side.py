"""Two episodes of the same task, step beside step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.exceptions import HTTPException

from bestofq.core.actions import Action, identity
from bestofq.reports.spending import Spent
from bestofq.store.catalogue import Head
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary, StepSummary
from bestofq.store.store import Store
from bestofq.viewer.episodes import SIBLINGS, StepView, step_view
from bestofq.viewer.steps import Scores, spent_by_role


@dataclass(frozen=True, kw_only=True)
class Side:
    head: Head
    steps: Sequence[StepSummary]
    scores: Scores
    spent: Sequence[tuple[str, Spent]]

    @property
    def pages(self) -> int:
        """How many there are to show: the end's too, once there is one."""
        return len(self.steps) + (self.head.summary.status != "running")

    def view(self, store: Store, at: int) -> StepView | None:
        return step_view(store, self.head.summary.id, self.steps, at, self.scores) if at < self.pages else None


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
    if (task := one.head.summary.key[:2]) != other.head.summary.key[:2]:
        raise HTTPException(404, "These two episodes are of different tasks: choose two of the same.")
    one, other = (replace(side, scores=side.scores.beside(by.scores)) for side, by in ((one, other), (other, one)))
    rows = [(one.view(store, at), other.view(store, at)) for at in range(max(one.pages, other.pages))]
    pairs = zip(one.steps, other.steps, strict=False)
    same = [_done(a) == _done(b) for a, b in pairs]
    parted = same.index(False) if False in same else min(len(one.steps), len(other.steps))
    return SideBySide(
        left=one,
        right=other,
        rows=rows,
        parted=parted if parted < max(len(one.steps), len(other.steps)) else None,
        others=store.catalogue.episodes(EpisodeFilter(suite=task[0], task=task[1]), limit=SIBLINGS),
    )


def _side(store: Store, episode: str) -> Side:
    head = store.catalogue.head(episode)
    if head is None:
        raise HTTPException(404, f"There is no episode {episode!r} in this store.")
    steps = store.catalogue.steps(episode)
    decisions = [step.decision for step in steps]
    return Side(
        head=head,
        steps=steps,
        scores=Scores.of(decisions),
        spent=spent_by_role((*(u for decision in decisions for u in decision.usage), *head.summary.unstepped)),
    )


def _done(step: StepSummary) -> tuple[str, Action]:
    """In words, for pages that differ, and as the action, for elements with the same words."""
    return step.decision.candidate.label, identity(step.decision.candidate.action)
