"""One episode at one of its steps, with other episodes of its task, and two episodes of one task side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from math import isfinite
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException

from bestofq.core.actions import Action, identity
from bestofq.core.decision import Episode, Step
from bestofq.core.observation import Observation
from bestofq.reports.charts import values_svg
from bestofq.reports.spent import Spent, spent_by_role
from bestofq.reports.svg import inline
from bestofq.reports.values import value_path
from bestofq.store.catalogue import StepPlace
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary
from bestofq.viewer.filters import query_of
from bestofq.viewer.pages import address
from bestofq.viewer.steps import Bar, CandidateView, Range, ScoreTable, candidate_views, verdict

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


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An episode, what its scores are, and what was used by role."""

    summary: EpisodeSummary
    episode: Episode
    scores: ScoreTable
    spent: Mapping[str, Spent]

    @classmethod
    def of(cls, store: Store, episode: str) -> "Shown":
        """404 where there is no such episode."""
        if (found := store.catalogue.episode(episode)) is None:
            raise HTTPException(404, f"There is no episode {episode!r} in this store.")
        summary, read = found
        scores = ScoreTable.of([step.decision for step in read.steps])
        return cls(summary=summary, episode=read, scores=scores, spent=spent_by_role(read.usage))

    @property
    def steps(self) -> Sequence[Step]:
        return self.episode.steps

    def view(self, at: int, *, alone: bool = False) -> StepPage:
        """The step `at`; past the last one, the page at the end. Bars span the episode's scores, `alone` the step's."""
        if at == len(self.steps):
            return StepPage(step=None, seen=self.episode.final)
        step, value = self.steps[at], self.steps[at].decision.state_value
        ours = [*step.decision.scores, *([value] if value is not None and self.scores.meaning.values else [])]
        span = Range.of_step(ours) if alone else None
        candidates = candidate_views(step.decision, step.observation, self.scores, span=span)
        of_values = span if span and self.scores.meaning.values else self.scores.value_range
        return StepPage(
            step=step,
            seen=step.observation,
            candidates=candidates,
            value=None if value is None else Bar.of("V", value, of_values, "the value of this page"),
            words=verdict(step.decision, self.scores),
        )


@dataclass(frozen=True, kw_only=True)
class EpisodeView(Shown):
    """Everything that its page shows. `at` counts steps from 0; the number of steps means the end."""

    at: int
    running: bool  # by a process that is still there
    followed: bool
    now: StepPage
    siblings: Sequence[EpisodeSummary]
    trees: Sequence[TreeSummary]
    listed: Mapping[str, str]  # what the list is narrowed by that it stands in: as opened, else its agent's in its run
    place: StepPlace  # in that list

    @property
    def ended(self) -> bool:
        return self.at == len(self.steps)

    @cached_property
    def chart(self) -> Markup | None:
        """Fig. 12, with links to the steps; None where the scores do not differ, or are not all numbers."""
        path, decisions = value_path(self.episode), [step.decision for step in self.steps]
        steps, values = path.steps, [score for decision in decisions for score in decision.scores]
        if self.scores.meaning.values:
            values += [decision.state_value for decision in decisions if decision.state_value is not None]
        else:  # V is the value of something else
            steps = tuple(replace(step, state_value=None) for step in steps)
        if not self.scores.informative or not all(map(isfinite, values)):
            return None
        path = path._replace(steps=steps, outcome=self.summary.outcome or self.summary.status)
        return inline(values_svg(path, size=CHART, now=None if self.ended else self.at, to=self.to))

    def to(self, at: int) -> str | None:
        """The address of a step; None where there is none. The newest step of a running episode is followed."""
        last = len(self.steps) - 1 if self.running else len(self.steps)
        if not 0 <= at <= last:
            return None
        followed = self.running and at == last
        step = None if followed else "end" if at == len(self.steps) else at + 1
        return address(f"/episode/{self.summary.id}", **self.listed, step=step)

    def beside(self, episode: str | None) -> str | None:
        """The address of another episode of the list."""
        return None if episode is None else address(f"/episode/{episode}", **self.listed)


def episode_view(store: Store, episode: str, at_step: str | None, among: EpisodeFilter) -> EpisodeView:
    """404 where there is no such episode, or it has no such step. `at_step`: from 1, `end`, or None: the first step,
    while it runs the newest. `among`: the list it was opened from."""
    shown = Shown.of(store, episode)
    summary = shown.summary
    suite, task, _ = summary.key
    running = summary.status == "running" and store.is_written
    at = _position(at_step, len(shown.steps), running)
    if not query_of(among):
        among = replace(among, run=summary.run, agent=summary.agent)
    siblings = store.catalogue.episodes(EpisodeFilter(suite=suite, task=task), limit=SIBLINGS)
    return EpisodeView(
        **vars(shown),
        at=at,
        running=running,
        followed=running and at_step is None,
        now=shown.view(at, alone=True),
        siblings=[other for other in siblings if other.id != episode],
        trees=store.trees.summaries(suite=suite, task=task),
        listed=query_of(among),
        place=store.catalogue.beside(summary, among),
    )


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
    one, other = Shown.of(store, left), Shown.of(store, right)
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
