"""One episode at one of its steps, with other episodes of its task, and two episodes of one task side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException

from bestofq.core.actions import Action, identity
from bestofq.core.decision import Episode, Step
from bestofq.core.observation import Observation
from bestofq.reports.costs import Spent, spent_by_role
from bestofq.reports.figures import values_svg
from bestofq.reports.svg import inline
from bestofq.reports.values import read_values
from bestofq.store.records import EpisodeFilter, EpisodeSummary
from bestofq.store.store import Store
from bestofq.viewer.filters import query_of
from bestofq.viewer.pages import address
from bestofq.viewer.steps import Bar, CandidateView, ScoreTable, candidate_views, verdict

CHART = (1100.0, 140.0)  # width and height
SIBLINGS = 60  # other episodes of the same task that are offered to compare with


@dataclass(frozen=True, kw_only=True)
class StepPage:
    """A page and what was weighed on it; at the end of an episode there is a page only, or nothing."""

    step: Step | None
    seen: Observation | None
    candidates: Sequence[CandidateView] = ()
    value: Bar | None = None
    words: str = ""  # how the scores decided


@dataclass(frozen=True)
class EpisodeView:
    """An episode, what its scores are, and what was used by role."""

    summary: EpisodeSummary
    episode: Episode
    scores: ScoreTable
    spent: Mapping[str, Spent]

    @classmethod
    def of(cls, store: Store, episode: str) -> "EpisodeView":
        """404 if there is no such episode."""
        if (found := store.catalogue.episode(episode)) is None:
            raise HTTPException(404, f"There is no episode {episode!r} in this store.")
        summary, read = found
        return cls(summary, read, ScoreTable.of([step.decision for step in read.steps]), spent_by_role(read.usage))

    @property
    def steps(self) -> Sequence[Step]:
        return self.episode.steps

    def view(self, at: int) -> StepPage:
        """The step `at`; past the last one, the page at the end. Bars span the episode's scores."""
        if at == len(self.steps):
            return StepPage(step=None, seen=self.episode.final)
        step, scores, value = self.steps[at], self.scores, self.steps[at].decision.state_value
        return StepPage(
            step=step,
            seen=step.observation,
            candidates=candidate_views(step.decision, step.observation, scores),
            value=None if value is None else Bar.of("V", value, scores.value_range, "the value of this page"),
            words=verdict(step.decision, scores),
        )

    def chart(self, now: int | None, to: Callable[[int], str | None]) -> Markup | None:
        """Fig. 12, with links to the steps; None if the scores do not differ, or are no numbers."""
        steps = read_values(self.episode)
        if not self.scores.meaning.values:  # V is the value of something else
            steps = [replace(step, state_value=None) for step in steps]
        if not self.scores.informative or all(step.taken is None for step in steps):
            return None
        outcome = self.summary.outcome or self.summary.status
        return inline(values_svg(self.episode, steps=steps, outcome=outcome, size=CHART, now=now, to=to))


def episode_page(store: Store, episode: str, at_step: str | None, among: EpisodeFilter) -> Mapping[str, Any]:
    """What the page of an episode shows. 404 if there is no such episode, or it has no such step.

    `at_step`: from 1, `end`, or None: the first step, while it runs the newest. `among`: the list it was opened from;
    by default the agent's episodes in its run.
    """
    view = EpisodeView.of(store, episode)
    summary, count = view.summary, len(view.steps)
    running = summary.status == "running" and store.is_written  # by a process that is still there
    at = _position(at_step, count, running)
    if not query_of(among):
        among = replace(among, run=summary.run, agent=summary.agent)
    listed = query_of(among)

    def to(step: int) -> str | None:
        """The address of a step; None if there is none. The newest step of a running episode is followed."""
        last = count - 1 if running else count
        if not 0 <= step <= last:
            return None
        named = None if running and step == last else "end" if step == count else step + 1
        return address(f"/episode/{summary.id}", **listed, step=named)

    task = EpisodeFilter(suite=summary.suite, task=summary.task)
    return {
        "view": view,
        "at": at,
        "ended": at == count,
        "running": running,
        "followed": running and at_step is None,
        "now": view.view(at),
        "chart": view.chart(None if at == count else at, to),
        "to": to,
        "siblings": [other for other in store.catalogue.episodes(task, limit=SIBLINGS) if other.id != episode],
        "trees": store.trees.summaries(suite=summary.suite, task=summary.task),
        "listed": listed,
        "place": store.catalogue.beside(summary, among),
    }


def _position(at_step: str | None, count: int, running: bool) -> int:
    if at_step is None:
        return max(0, count - 1) if running else 0
    if at_step == "end" and not running:
        return count
    if not at_step.isdecimal() or len(at_step) > 9 or not 1 <= int(at_step) <= count:
        raise HTTPException(404, f"This episode has no step {at_step!r}: it has {count}.")
    return int(at_step) - 1


def side_by_side(store: Store, left: str, right: str) -> Mapping[str, Any]:
    """What the page of two episodes shows: both, their steps in `rows`, and `others` of the task.

    A row has None past an episode's end. `parted` is the first step at which their actions differ; None: none does.
    404 if one does not exist, or their tasks differ.
    """
    one, other = EpisodeView.of(store, left), EpisodeView.of(store, right)
    if (task := one.summary.key[:2]) != other.summary.key[:2]:
        raise HTTPException(404, "The tasks of these two episodes differ: choose two episodes of one task.")
    one, other = (replace(side, scores=side.scores.share_scale(by.scores)) for side, by in ((one, other), (other, one)))
    ended = [len(side.steps) + (side.summary.status != "running") for side in (one, other)]  # the end has a page
    views = [[side.view(at) for at in range(pages)] for side, pages in zip((one, other), ended, strict=True)]
    pairs = zip(one.steps, other.steps, strict=False)
    shorter, longer = sorted((len(one.steps), len(other.steps)))
    parted = next((at for at, (a, b) in enumerate(pairs) if _done(a) != _done(b)), shorter)
    others = store.catalogue.episodes(EpisodeFilter(suite=task[0], task=task[1]), limit=SIBLINGS)
    parts = {"parted": parted if parted < longer else None, "rows": list(zip_longest(*views)), "others": others}
    return {"left": one, "right": other, **parts}


def _done(step: Step) -> tuple[str, Action]:
    """In words, for pages that differ, and as the action, for elements with the same words."""
    return step.decision.candidate.label, identity(step.decision.candidate.action)
