"""How much more or less an agent does, spends and offers than another on the same tasks, paired by task.

Each difference is to the baseline. If a measure is not defined for it (an agent without Q-values has no ECE), it is to
the first agent that has the measure.
"""

from collections.abc import Mapping, Sequence

from bestofq.core.decision import Episode
from bestofq.core.protocols import Rated
from bestofq.reports.behaviour import habits
from bestofq.reports.calibration import Valued, bin_steps, ece
from bestofq.reports.costs import ALL, Prices, measure_costs
from bestofq.reports.recall import rated_shares
from bestofq.reports.reliability import pass_at, pass_variance
from bestofq.reports.stats import UNIT, Attempts, Quantity, Tries
from bestofq.reports.table import Row, RowSource, Table, columns

_HABITS = ("steps / episode", "same step again %", "page again %", "episodes in a loop %")
Measures = Mapping[str, Mapping[str, Quantity]]
"""By agent and name."""


def measure_agents(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    *,
    attempts: Mapping[str, Attempts] | None = None,
    rated: Mapping[str, Sequence[Rated]] | None = None,
    valued: Mapping[str, Sequence[Valued]] | None = None,
    prices: Prices | None = None,
) -> Measures:
    """pass@k of `attempts`, recall and regret of `rated` steps, ECE of `valued` ones, habits and costs of the episodes.

    k is the number of runs that every agent has at some task. `prices` are for tokens without one in the episodes.
    """
    attempts, rated, valued = attempts or {}, rated or {}, valued or {}
    k = min((int(Tries.of(tried).done.sum(axis=1).max(initial=0)) for tried in attempts.values()), default=0)
    found: dict[str, dict[str, Quantity]] = {}
    for agent in agents:
        own = found[agent] = {}
        if k > 1:
            own |= {f"pass@{k}": pass_at(attempts[agent], k), "task variance": pass_variance(attempts[agent], 1)}
        shares = rated_shares(rated.get(agent, ()))
        own |= {"candidate recall": shares["recall"], "ranker's regret": shares["regret"]}
        own["ECE of Q"] = Quantity(bin_steps(valued.get(agent, ())), UNIT, ece)
        did = habits(episodes, agent)
        own |= {head.removesuffix(" %"): did[head] for head in _HABITS}
        own |= measure_costs(episodes, agent, prices=prices).get(ALL, {})
    return found


def differences_table(measures: Measures, baseline: str, made: Mapping[str, RowSource]) -> Table:
    """A row for each agent and measure that is defined for it and for another agent."""
    rows = []
    for agent, own in measures.items():
        for what, quantity in own.items():
            known = (n for n in (baseline, *measures) if what in measures[n] and measures[n][what].value is not None)
            against = next(known, agent)
            if against != agent and (difference := quantity.minus(measures[against][what])) is not None:
                cells = (agent, against, what, difference, difference.tasks)
                rows.append(Row(cells=cells, origin=made.get(agent)))
    return Table(
        name="differences",
        title="Differences between agents, paired by task",
        columns=(
            *columns("agent", "against", "what"),
            *columns("difference", signed=["difference"], digits=None),
            *columns("tasks"),
        ),
        rows=tuple(rows),
        notes=(
            "The agent's minus the other's on the tasks of both, shares in [0, 1]; 95 % bootstrap, paired by task.",
            "Against the baseline, or the first agent that has the measure. ∞: resamples without a success have no "
            "bound on its cost.",
        ),
    )
