"""The first page: the largest comparison of agents in numbers and pictures, the latest runs and episodes."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from markupsafe import Markup

from bestofq.reports.costs import CostPoint, points_svg
from bestofq.reports.figures import bars_svg
from bestofq.reports.naming import OURS, kind, place
from bestofq.reports.rows import BASELINE, HELD_OUT
from bestofq.reports.stats import attempts_of, group_by
from bestofq.reports.success import GroupResult, performance
from bestofq.reports.svg import inline
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

SAMPLE = 40  # episodes of an agent whose tokens are read, spread over its tasks
KEPT = 16  # comparisons that are remembered


class AgentLine(GroupResult):
    """One agent in one run, and what an episode took. `episodes` are all finished ones."""

    tokens: float  # the mean of an episode
    seconds: float | None
    usd: float | None  # None: a price is not known


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The agents of a run on one suite and split, in `naming.ORDER`."""

    run: str
    suite: str
    split: str
    baseline: str | None
    lines: Sequence[AgentLine]
    episodes: Sequence[EpisodeSummary]
    sampled: int  # the most episodes of an agent that tokens are a mean of

    @property
    def main(self) -> AgentLine | None:
        """The one that a sentence says more of: the first of `naming.OURS` that is there, whatever it came to."""
        ours = [line for line in self.lines if line.difference is not None and kind(line.agent) in OURS]
        return min(ours, key=lambda line: OURS.index(kind(line.agent)), default=None)

    @cached_property
    def bars(self) -> Markup | None:
        """Success of each agent; None if none has an outcome that tells."""
        rows = [(line.agent, line.rate) for line in self.lines if line.success]
        return inline(bars_svg(rows, baseline=self.baseline)) if rows else None

    @cached_property
    def pareto(self) -> Markup | None:
        """Success against tokens (Best-of-Q, Fig. 2); None if both are known of fewer than two agents."""
        known = [
            CostPoint(line.agent, line.tokens, line.rate.value, line.rate.interval)
            for line in self.lines
            if line.rate.value is not None and line.tokens
        ]
        return inline(points_svg(known, self.baseline)) if len(known) > 1 else None


def find_comparison(store: Store, run: str | None, lines: Iterable[Any] | None = None) -> Comparison | None:
    """Return the comparison of a run. Without a name, return the one in which two agents did the most tasks, the
    latest among equals. None if there is none. `lines`: the store's `Catalogue.agents`, if they are known.

    It is read again only if an episode has finished or a verdict has changed since."""
    known = store.catalogue.agents(run=run) if lines is None else lines
    by_run = group_by((line for line in known if line.decided), lambda line: line.run)
    if run is None:
        several = [name for name in store.catalogue.runs() if len({e.agent for e in by_run.get(name, ())}) > 1]
        run = max(several, key=lambda name: sorted(line.tasks for line in by_run[name])[-2], default=None)
    if run is None:
        return None
    own = by_run.get(run, ())
    counts = [(line.agent, line.suite, line.episodes - line.running, line.decided, line.successes) for line in own]
    return compare(store, run, (*counts, store.catalogue.judged_at(run)))


@lru_cache(KEPT)
def compare(store: Store, run: str, _state: Hashable = None) -> Comparison | None:
    """The agents of a run, on the suite with the most episodes and the most telling split; None without episodes."""
    every = sorted(store.summaries(run=run), key=lambda e: e.started_at)
    if not every:
        return None
    suites = group_by(every, lambda e: e.suite)
    suite = max(suites, key=lambda name: len(suites[name]))
    split = min({e.split for e in suites[suite]}, key=lambda name: ((*HELD_OUT, name).index(name), name))
    episodes = [e for e in suites[suite] if e.split == split]
    by_agent = group_by(episodes, lambda e: e.agent)
    names = sorted(by_agent, key=place)
    baseline = names[0] if names[0] == BASELINE or len(names) > 1 else None
    attempts = {name: attempts_of(by_agent[name]) for name in names}
    sampled = {name: _sample(by_agent[name]) for name in names}
    used = store.catalogue.load_usage([e.id for some in sampled.values() for e in some])

    def line(name: str) -> AgentLine:
        spent = [used[e.id] for e in sampled[name]]
        prices = [usd for _, usd in spent if usd is not None]
        times = [seconds for e in by_agent[name] if (seconds := e.seconds) is not None]
        against = attempts[baseline] if baseline and baseline != name else None
        return AgentLine(
            agent=name,
            values=(name,),
            outcomes={},
            **{**performance(attempts[name], against), "episodes": len(by_agent[name])},
            tokens=sum(tokens for tokens, _ in spent) / len(spent),
            seconds=sum(times) / len(times) if times else None,
            usd=sum(prices) / len(prices) if len(prices) == len(spent) else None,
        )

    return Comparison(
        run=run,
        suite=suite,
        split=split,
        baseline=baseline,
        lines=[line(name) for name in names],
        episodes=episodes,
        sampled=max(map(len, sampled.values())),
    )


def _sample(episodes: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
    """Spread evenly over the tasks, the same ones each time."""
    ordered = sorted(episodes, key=lambda e: (e.repeat, e.task))
    return [ordered[at * len(ordered) // SAMPLE] for at in range(SAMPLE)] if len(ordered) > SAMPLE else ordered


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Two agents of a run, and the tasks on which only one of them succeeded, `other`'s first. It counts the first try
    of the same number that is decided for both."""

    run: str
    agents: Sequence[str]  # to choose from
    one: str
    other: str
    tasks: int  # that both did
    differing: Sequence[tuple[EpisodeSummary, EpisodeSummary]]

    @classmethod
    def of(cls, found: Comparison, one: str | None, other: str | None) -> "Pairs | None":
        """Default: the baseline and the agent that is said more of. None if the run does not have two agents."""
        agents = [line.agent for line in found.lines]
        one = one or found.baseline or agents[0]
        other = other or (found.main.agent if found.main else agents[-1])
        if one == other:
            return None
        ordered = sorted((e for e in found.episodes if e.decided), key=lambda e: (e.repeat, e.task))
        ours, theirs = ({(e.repeat, e.task): e for e in ordered if e.agent == name} for name in (one, other))
        both: dict[str, tuple[EpisodeSummary, EpisodeSummary]] = {}  # by task
        for at, left in ours.items():
            if at in theirs:
                both.setdefault(left.task, (left, theirs[at]))
        differing = [(left, right) for left, right in both.values() if left.success != right.success]
        differing.sort(key=lambda pair: pair[0].success)
        return cls(run=found.run, agents=agents, one=one, other=other, tasks=len(both), differing=differing)
