"""Time, tokens and money by role, per task and per success, with intervals (Best-of-Q, 4.4 and J).

`costs.py` sums them up; here tasks are resampled, so that two agents can be told apart. A price that is not known
leaves USD undefined: it is never taken for 0. Only finished episodes, since only those have a task.
"""

from collections.abc import Hashable, Iterable
from typing import get_args

from bestofq.core.decision import Episode
from bestofq.core.noun import Noun
from bestofq.core.usage import Role
from bestofq.reports import stats
from bestofq.reports.costs import Prices, Spent
from bestofq.reports.origin import Origin
from bestofq.reports.stats import Measure, Tally
from bestofq.reports.table import Column, Row, Table

ALL = "all"


class Spending(Noun):
    """One role of one agent (or `ALL` of them), per finished episode and per successful one."""

    agent: str
    role: str
    tokens: Measure
    seconds: Measure
    usd: Measure
    tokens_per_success: Measure
    seconds_per_success: Measure
    usd_per_success: Measure


_AMOUNTS = ("tokens", "seconds", "usd")


def spending(episodes: Iterable[Episode], agent: str, *, prices: Prices | None = None) -> list[Spending]:
    """A row a role that the agent used, then `ALL`. `prices` for tokens that have none in the store."""
    found = spent_by_task(episodes, agent, prices=prices)
    return [
        Spending(
            agent=agent,
            role=role,
            **{name: Measure(value=None) if tally is None else stats.ratio(tally) for name, tally in tallies.items()},
        )
        for role, tallies in found.items()
        if role != ALL or len(found) > 2
    ]


def spent_by_task(
    episodes: Iterable[Episode], agent: str, *, prices: Prices | None = None
) -> dict[str, dict[str, Tally | None]]:
    """By role (`ALL` last), what `Spending`'s measures are ratios of, by their names; None: a price is not known."""
    used: dict[str, dict[Hashable, list[float]]] = {}  # by role, by task: tokens, seconds, USD
    tasks: dict[Hashable, tuple[int, int]] = {}  # by task: episodes, successes
    unpriced: set[str] = set()
    for episode in episodes:
        if episode.agent != agent:
            continue
        task = (episode.task.suite, episode.task.id)
        done, won = tasks.get(task, (0, 0))
        tasks[task] = (done + 1, won + (episode.verdict.outcome == "success"))
        for usage in episode.usage:
            spent = Spent.of(usage, prices)
            for role in (usage.role, ALL):
                sums = used.setdefault(role, {}).setdefault(task, [0.0, 0.0, 0.0])
                for at, amount in enumerate((spent.tokens, spent.seconds, spent.usd)):
                    sums[at] += amount
                if spent.unpriced:
                    unpriced.add(role)

    def tally(role: str, at: int, per: int) -> Tally | None:
        if _AMOUNTS[at] == "usd" and role in unpriced:
            return None
        return {task: (used[role].get(task, [0.0] * 3)[at], float(n[per])) for task, n in tasks.items()}

    return {
        role: {
            name + suffix: tally(role, at, per)
            for per, suffix in enumerate(("", "_per_success"))
            for at, name in enumerate(_AMOUNTS)
        }
        for role in (*get_args(Role), ALL)
        if role in used
    }


def spending_table(rows: Iterable[Spending], made: dict[str, Origin]) -> Table:
    """A row an agent and role."""
    names = [name + suffix for suffix in ("", "_per_success") for name in _AMOUNTS]
    heads = [f"{name} / {per}" for per in ("task", "success") for name in ("tokens", "seconds", "USD")]
    digits = [0, 2, 5, 0, 2, 5]
    return Table(
        name="spending",
        title="Tokens, seconds and USD by role",
        columns=(
            Column(name="agent"),
            Column(name="role"),
            *(Column(name=head, digits=n) for head, n in zip(heads, digits, strict=True)),
        ),
        rows=tuple(
            Row(cells=(row.agent, row.role, *(getattr(row, name) for name in names)), origin=made.get(row.agent))
            for row in rows
        ),
        notes=(
            "Of finished episodes; a success carries what the failures cost. 95 % bootstrap over tasks.",
            "∞: in too many of the resamples nothing succeeds, so a success may cost any amount.",
            "USD –: no price is known. Seconds: waiting for the models, not for the pages.",
        ),
    )
