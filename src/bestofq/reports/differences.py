"""What an agent does, spends, offers and values more or less of than another on the same tasks: differences paired by
task.

Each is to the baseline; where a measure is not defined for that (an agent without Q-values has no ECE), to the first
agent for which it is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.core.decision import Episode
from bestofq.core.noun import Noun
from bestofq.core.protocols import Rated
from bestofq.reports import stats
from bestofq.reports.behaviour import SHARES, habits
from bestofq.reports.calibration import Valued, binned, ece
from bestofq.reports.recall import rated_tallies
from bestofq.reports.reliability import pass_tally, variance_tally
from bestofq.reports.spending import ALL, HEADS, Prices, spent_by_task
from bestofq.reports.stats import Attempt, Counts, Difference, Doubles, Span, Tally
from bestofq.reports.table import Origin, Table, columns, rows_of

_RATED = (("recall", "candidate recall"), ("regret", "ranker's regret"))
_HABITS = (("repeated", "same step again"), ("returned", "page again"), ("looping", "episodes in a loop"))


class Compared(NamedTuple):
    """A measure of several agents: `statistic` of their counts [K] by task, added up."""

    what: str
    counts: Mapping[str, Counts]  # by agent
    statistic: Callable[[Doubles], Doubles]
    span: Span | None  # of a difference

    def has(self, agent: str) -> bool:
        """Whether it is defined for the agent."""
        counts = self.counts.get(agent, {})
        return len(counts) > 0 and bool(np.isfinite(self.statistic(np.stack([*counts.values()]).sum(axis=0)[None])[0]))

    def difference(self, agent: str, other: str) -> Difference | None:
        """None where it is undefined for one of them, or they have no task in common."""
        ours, theirs = self.counts.get(agent, {}), self.counts.get(other, {})
        return stats.paired(ours, theirs, self.statistic, span=self.span)


class AgentDifference(Noun):
    """One agent's measure minus another's."""

    what: str
    agent: str
    against: str
    difference: Difference


def differences(measures: Sequence[Compared], agents: Sequence[str], baseline: str) -> list[AgentDifference]:
    """A row an agent and measure, where it is defined for both."""
    against = {one.what: next((agent for agent in (baseline, *agents) if one.has(agent)), baseline) for one in measures}
    return [
        AgentDifference(what=one.what, agent=agent, against=other, difference=found)
        for agent in agents
        for one in measures
        if agent != (other := against[one.what]) and (found := one.difference(agent, other)) is not None
    ]


def compared(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    *,
    attempts: Mapping[str, Sequence[Attempt]] | None = None,
    rated: Mapping[str, Sequence[Rated]] | None = None,
    valued: Mapping[str, Sequence[Valued]] | None = None,
    prices: Prices | None = None,
) -> list[Compared]:
    """pass@k of `attempts` (k: the runs that every agent has), recall and regret of `rated` steps, ECE of `valued`
    ones, then habits and costs of the agents' episodes. `prices` for tokens that have none in the store."""
    found = [*_passes(attempts or {})]
    by_agent = {agent: rated_tallies(steps) for agent, steps in (rated or {}).items()}
    found += [_ratios(head, {a: t[name] for a, t in by_agent.items()}, stats.SIGNED) for name, head in _RATED]
    binned_by_agent = {agent: binned(steps) for agent, steps in (valued or {}).items()}
    found.append(Compared("ECE of Q", binned_by_agent, ece, stats.SIGNED))
    did = {agent: habits(episodes, agent) for agent in agents}
    for name, head in (("steps", "steps / episode"), *_HABITS):
        span = stats.SIGNED if name in SHARES else None
        found.append(_ratios(head, {agent: tallies[name] for agent, tallies in did.items()}, span))
    spent = {agent: spent_by_task(episodes, agent, prices=prices).get(ALL, {}) for agent in agents}
    found += [
        _ratios(head, {agent: tallies.get(name) for agent, tallies in spent.items()}) for name, head in HEADS.items()
    ]
    return found


def differences_table(rows: Sequence[AgentDifference], made: Mapping[str, Origin]) -> Table:
    """A row an agent and measure."""
    return Table(
        name="differences",
        title="Differences between agents, paired by task",
        columns=(
            *columns("agent", "against", "what"),
            *columns("difference", signed=["difference"], digits=None),
            *columns("tasks"),
        ),
        rows=rows_of(rows, made, "agent", "against", "what", "difference", "difference.tasks"),
        notes=(
            "The agent's minus the other's on the tasks of both, shares in [0, 1]; 95 % bootstrap, paired by task.",
            "Against the baseline, or the first agent for which the measure is defined. ∞: resamples without a success "
            "have no bound on what one costs.",
        ),
    )


def _ratios(what: str, tallies: Mapping[str, Tally | None], span: Span | None = None) -> Compared:
    return Compared(what, {agent: tally for agent, tally in tallies.items() if tally}, stats.quotient, span)


def _passes(attempts: Mapping[str, Sequence[Attempt]]) -> Iterator[Compared]:
    """Of as many tries as every agent has had at some task."""
    runs = [Counter(attempt.task for attempt in tried) for tried in attempts.values()]
    k = min((max(tries.values(), default=0) for tries in runs), default=0)
    if k < 2:
        return
    yield _ratios(f"pass@{k}", {agent: pass_tally(tried, k) for agent, tried in attempts.items()}, stats.SIGNED)
    variances = {agent: variance_tally(tried, 1) for agent, tried in attempts.items()}
    yield _ratios("task variance", variances, (-0.5, 0.5))
