"""Two episodes of the same task, step beside step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from starlette.exceptions import HTTPException

from bestofq.core.actions import Action, identity
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary, StepSummary
from bestofq.store.store import Store
from bestofq.viewer.episodes import SIBLINGS, Shown, StepView


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """`parted` is the first step at which they do not take the same action; None where they never part."""

    left: Shown
    right: Shown
    rows: Sequence[tuple[StepView | None, ...]]  # left and right; None past an episode's end
    parted: int | None
    others: Sequence[EpisodeSummary]


def side_by_side(store: Store, left: str, right: str) -> SideBySide:
    """404 where one is not there, or they are of different tasks."""
    one, other = Shown.of(store, left), Shown.of(store, right)
    if (task := one.head.summary.key[:2]) != other.head.summary.key[:2]:
        raise HTTPException(404, "These two episodes are of different tasks: choose two of the same.")
    one, other = (replace(side, scores=side.scores.beside(by.scores)) for side, by in ((one, other), (other, one)))
    views = [[side.view(store, at) for at in range(_pages(side))] for side in (one, other)]
    pairs = zip(one.steps, other.steps, strict=False)
    shorter, longer = sorted((len(one.steps), len(other.steps)))
    parted = next((at for at, (a, b) in enumerate(pairs) if _done(a) != _done(b)), shorter)
    return SideBySide(
        left=one,
        right=other,
        rows=list(zip_longest(*views)),
        parted=parted if parted < longer else None,
        others=store.catalogue.episodes(EpisodeFilter(suite=task[0], task=task[1]), limit=SIBLINGS),
    )


def _pages(side: Shown) -> int:
    """How many there are to show: the end's too, once there is one."""
    return len(side.steps) + (side.head.summary.status != "running")


def _done(step: StepSummary) -> tuple[str, Action]:
    """In words, for pages that differ, and as the action, for elements with the same words."""
    return step.decision.candidate.label, identity(step.decision.candidate.action)
