"""What an agent does, spends, offers and values more or less of than another on the same tasks: differences paired by
task.

Each is to the baseline; where a measure is not defined for that (an agent without Q-values has no ECE), to the first
agent for which it is.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bestofq.core.decision import Episode
from bestofq.core.protocols import Rated
from bestofq.reports.behaviour import habits
from bestofq.reports.calibration import Valued, bin_steps, ece
from bestofq.reports.costs import ALL, Prices, measure_spending
from bestofq.reports.recall import rated_shares
from bestofq.reports.reliability import pass_at, pass_variance
from bestofq.reports.stats import UNIT, Attempts, PairedDifference, Quantity, Tries
from bestofq.reports.table import RowSource, Table, columns, rows_of

_HABITS = ("steps / episode", "same step again %", "page again %", "episodes in a loop %")


class AgentDifference(NamedTuple):
    """One agent's measure minus another's."""

    what: str
    agent: str
    against: str
    difference: PairedDifference


def differences(measures: Mapping[str, Mapping[str, Quantity]], baseline: str) -> list[AgentDifference]:
    """Of the measures by agent and name: a row an agent and measure, where it is defined for both."""
    found = []
    for agent, mine in measures.items():
        for what, quantity in mine.items():
            known = (
                one for one in (baseline, *measures) if what in measures[one] and measures[one][what].value is not None
            )
            against = next(known, agent)
            if against != agent and (difference := quantity.minus(measures[against][what])) is not None:
                found.append(AgentDifference(what, agent, against, difference))
    return found


def compare_agents(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    *,
    attempts: Mapping[str, Attempts] | None = None,
    rated: Mapping[str, Sequence[Rated]] | None = None,
    valued: Mapping[str, Sequence[Valued]] | None = None,
    prices: Prices | None = None,
) -> dict[str, dict[str, Quantity]]:
    """By agent and name: pass@k of `attempts` (k: the runs that every agent has at some task), recall and regret of
    `rated` steps, ECE of `valued` ones, habits and costs of the episodes. `prices` for tokens that have none there."""
    attempts, rated, valued = attempts or {}, rated or {}, valued or {}
    k = min((int(Tries.of(tried).done.sum(axis=1).max(initial=0)) for tried in attempts.values()), default=0)
    found: dict[str, dict[str, Quantity]] = {}
    for agent in agents:
        of_agent = found[agent] = {}
        if k > 1:
            of_agent[f"pass@{k}"] = pass_at(attempts[agent], k)
            of_agent["task variance"] = pass_variance(attempts[agent], 1)
        shares = rated_shares(rated.get(agent, ()))
        of_agent |= {"candidate recall": shares["recall"], "ranker's regret": shares["regret"]}
        of_agent["ECE of Q"] = Quantity(bin_steps(valued.get(agent, ())), UNIT, ece)
        did = habits(episodes, agent)
        of_agent |= {head.removesuffix(" %"): did[head] for head in _HABITS}
        of_agent |= measure_spending(episodes, agent, prices=prices).get(ALL, {})
    return found


def differences_table(rows: Sequence[AgentDifference], made: Mapping[str, RowSource]) -> Table:
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
