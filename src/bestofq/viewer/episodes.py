"""One episode at one of its steps, with what else there is of its task, and two of one task, step beside step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from math import isfinite

from markupsafe import Markup
from starlette.exceptions import HTTPException

from bestofq.core.actions import Action, Targeted, identity
from bestofq.core.observation import Observation
from bestofq.reports.charts import values_svg
from bestofq.reports.spending import Spent, spent_by_role
from bestofq.reports.svg import inline
from bestofq.reports.values import ValuePath, valued_steps
from bestofq.store.catalogue import Head, Place
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary, StepSummary, TreeSummary
from bestofq.store.store import Store
from bestofq.viewer.filters import query_of
from bestofq.viewer.pages import address
from bestofq.viewer.steps import (
    Bar,
    CandidateView,
    Mark,
    Scores,
    TreePlace,
    candidate_views,
    marks,
    pieces,
    viewport,
)

CHART = (1100.0, 180.0)  # width and height
SIBLINGS = 60  # other episodes of the same task that are offered to compare with


@dataclass(frozen=True, kw_only=True)
class StepView:
    """A page and what was weighed on it; at the end of an episode there is a page only."""

    step: StepSummary | None
    seen: Observation | None
    candidates: Sequence[CandidateView] = ()
    value: Bar | None = None
    marks: Sequence[Mark] = ()
    viewport: tuple[float, float] = (0.0, 0.0)
    pieces: Sequence[tuple[str, str]] = ()
    spent: Mapping[str, Spent] = field(default_factory=dict)

    @property
    def chosen_mark(self) -> int | None:
        """The element that was acted on; None where the action names none."""
        action = None if self.step is None else self.step.decision.candidate.action
        return action.mark if isinstance(action, Targeted) else None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An episode's steps, what their scores are, and what was used by role."""

    head: Head
    steps: Sequence[StepSummary]
    scores: Scores
    spent: Mapping[str, Spent]

    @classmethod
    def of(cls, store: Store, episode: str) -> "Shown":
        """404 where there is no such episode."""
        head = store.catalogue.head(episode)
        if head is None:
            raise HTTPException(404, f"There is no episode {episode!r} in this store.")
        steps = store.catalogue.steps(episode)
        used = [*(used for step in steps for used in step.decision.usage), *head.summary.unstepped]
        scores = Scores.of([step.decision for step in steps])
        return cls(head=head, steps=steps, scores=scores, spent=spent_by_role(used))

    def view(self, store: Store, at: int, place: TreePlace | None = None) -> StepView:
        """The step `at`, or past the last one the page at the end."""
        episode = self.head.summary.id
        if at == len(self.steps):
            final = store.catalogue.final(episode)
            if final is None:
                return StepView(step=None, seen=None)
            return StepView(step=None, seen=final, viewport=viewport(final), pieces=pieces(final, ()))
        step, seen = self.steps[at], store.catalogue.seen(episode, self.steps[at].index)
        assert seen is not None  # a step's page is committed with it
        candidates = candidate_views(step.decision, seen, self.scores, place)
        value = step.decision.state_value
        return StepView(
            step=step,
            seen=seen,
            candidates=candidates,
            value=None if value is None else Bar.of("V", value, self.scores.value_range, "the value of this page"),
            marks=marks(seen, candidates),
            viewport=viewport(seen),
            pieces=pieces(seen, candidates),
            spent=spent_by_role(step.decision.usage),
        )


@dataclass(frozen=True, kw_only=True)
class EpisodeView(Shown):
    """Everything that its page shows. `at` counts steps from 0; the step count itself stands for the end."""

    at: int
    running: bool  # by a process that is still there
    followed: bool
    now: StepView
    siblings: Sequence[EpisodeSummary]
    trees: Sequence[TreeSummary]
    listed: Mapping[str, str]  # what the list is narrowed by that it stands in: as opened, else its agent's in its run
    place: Place  # in that list

    @property
    def ended(self) -> bool:
        return self.at == len(self.steps)

    @cached_property
    def chart(self) -> Markup | None:
        """Fig. 12, with links to the steps; None where the scores do not differ, or are not all numbers."""
        decisions = [step.decision for step in self.steps]
        if not self.scores.meaning.values:  # V is the value of something else
            decisions = [decision.model_copy(update={"state_value": None}) for decision in decisions]
        values = [v for d in decisions for v in (*d.scores, d.state_value) if v is not None]
        if not self.scores.informative or not all(map(isfinite, values)):
            return None
        summary = self.head.summary
        path = ValuePath(
            episode=summary.id,
            run=summary.run,
            agent=summary.agent,
            task=summary.key.task,
            outcome=summary.outcome or summary.status,
            steps=valued_steps(decisions),
        )
        return inline(values_svg(path, size=CHART, now=None if self.ended else self.at, to=self.to))

    def to(self, at: int) -> str | None:
        """The address of a step; None where there is none. The newest step of a running episode is followed."""
        last = len(self.steps) - 1 if self.running else len(self.steps)
        if not 0 <= at <= last:
            return None
        followed = self.running and at == last
        step = None if followed else "end" if at == len(self.steps) else at + 1
        return address(f"/episode/{self.head.summary.id}", **self.listed, step=step)

    def beside(self, episode: str | None) -> str | None:
        """The address of another episode of the list."""
        return None if episode is None else address(f"/episode/{episode}", **self.listed)


def episode_view(store: Store, episode: str, at_step: str | None, among: EpisodeFilter) -> EpisodeView:
    """404 where there is no such episode, or it has no such step. `at_step`: from 1, `end`, or None: the first step,
    while it runs the newest. `among`: the list it was opened from."""
    shown = Shown.of(store, episode)
    summary = shown.head.summary
    suite, task, repeat = summary.key
    running = summary.status == "running" and store.is_written
    at = _position(at_step, len(shown.steps), running)
    own = store.trees.load(summary.run, suite, task, repeat=repeat)
    place = None if own is None else TreePlace.after(own, [step.decision for step in shown.steps[:at]])
    if not query_of(among):
        among = replace(among, run=summary.run, agent=summary.agent)
    siblings = store.catalogue.episodes(EpisodeFilter(suite=suite, task=task), limit=SIBLINGS)
    return EpisodeView(
        **vars(shown),
        at=at,
        running=running,
        followed=running and at_step is None,
        now=shown.view(store, at, place),
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
    ended = [len(side.steps) + (side.head.summary.status != "running") for side in (one, other)]  # the end has a page
    views = [[side.view(store, at) for at in range(pages)] for side, pages in zip((one, other), ended, strict=True)]
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


def _done(step: StepSummary) -> tuple[str, Action]:
    """In words, for pages that differ, and as the action, for elements with the same words."""
    return step.decision.candidate.label, identity(step.decision.candidate.action)
