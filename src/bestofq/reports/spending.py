"""Time, tokens and money by role, per task and per success, with intervals (Best-of-Q, 4.4 and J).

`costs.py` sums them up; here tasks are resampled, so that two agents can be told apart. A price that is not known
leaves USD undefined: it is never taken for 0. Only finished episodes, since only those have a task.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Self, get_args

from bestofq.core.decision import Episode
from bestofq.core.noun import Noun
from bestofq.core.usage import Role, Usage
from bestofq.reports import stats
from bestofq.reports.stats import Measure, Tally, tallied
from bestofq.reports.table import Column, Origin, Table, columns, rows_of

ALL = "all"
Prices = Mapping[Role, tuple[float, float]]
"""USD per million tokens, in and out, of a role; for the Q-function's embedder see Best-of-Q, Table 13."""


class Spent(Noun):
    """Sums over episodes. `usd` adds up the known prices; `unpriced` counts the tokens whose price is not known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    unpriced: int = 0

    @classmethod
    def of(cls, used: Usage, prices: Prices | None = None) -> Self:
        """What was used; `prices` where it has none of its own."""
        tokens, usd = used.tokens_in + used.tokens_out, used.usd
        if usd is None and used.role in (prices or {}):
            usd_in, usd_out = (prices or {})[used.role]
            usd = (used.tokens_in * usd_in + used.tokens_out * usd_out) / 1e6
        same = {name: getattr(used, name) for name in ("tokens_in", "tokens_out", "calls", "seconds")}
        return cls(**same, usd=usd or 0.0, unpriced=tokens if usd is None else 0)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def dollars(self, among: int = 1) -> str:
        """USD for each of `among`, in words: `≥` where only a part has a known price."""
        if among == 0:
            return "–"
        if self.unpriced and not self.usd:
            return "unknown"
        each = self.usd / among
        return ("≥ " if self.unpriced else "") + (f"{each:,.2f}" if each >= 1 or each == 0 else f"{each:.2g}")

    @property
    def price(self) -> float | None:
        """USD; None as soon as a part of it is not known."""
        return None if self.unpriced else self.usd

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in Spent.model_fields})


def spent_by_role(usages: Iterable[Usage], prices: Prices | None = None) -> dict[str, Spent]:
    """Sums by role, in order of first appearance; a last one over all (`ALL`) where there are several."""
    roles: dict[str, Spent] = {}
    for used in usages:
        roles[used.role] = roles.get(used.role, Spent()) + Spent.of(used, prices)
    return roles | ({ALL: sum(roles.values(), Spent())} if len(roles) > 1 else {})


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


HEADS = {
    "tokens": "tokens / task",
    "seconds": "seconds / task",
    "usd": "USD / task",
    "tokens_per_success": "tokens / success",
    "seconds_per_success": "seconds / success",
    "usd_per_success": "USD / success",
}
"""`Spending`'s measures, as tables call them."""


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
    used: dict[str, dict[Hashable, Spent]] = {}  # by role, by task
    done: list[tuple[Hashable, bool]] = []  # an episode's task, and whether it succeeded
    for episode in episodes:
        if episode.agent == agent:
            task = (episode.task.suite, episode.task.id)
            done.append((task, episode.verdict.outcome == "success"))
            for usage in episode.usage:
                for role in (usage.role, ALL):
                    spent = used.setdefault(role, {})
                    spent[task] = spent.get(task, Spent()) + Spent.of(usage, prices)

    def tally(role: str, name: str) -> Tally | None:
        amount, _, per_success = name.partition("_per_")
        if amount == "usd" and any(spent.unpriced for spent in used[role].values()):
            return None
        wholes = tallied((task, 0, won if per_success else 1) for task, won in done)
        return {task: (getattr(used[role].get(task, Spent()), amount), whole) for task, (_, whole) in wholes.items()}

    roles = (role for role in (*get_args(Role), ALL) if role in used)
    return {role: {name: tally(role, name) for name in HEADS} for role in roles}


def spending_table(rows: Iterable[Spending], made: Mapping[str, Origin]) -> Table:
    """A row an agent and role."""
    return Table(
        name="spending",
        title="Tokens, seconds and USD by role",
        columns=(
            *columns("agent", "role"),
            *(Column(name=head, digits=n) for head, n in zip(HEADS.values(), 2 * (0, 2, 5), strict=True)),
        ),
        rows=rows_of(rows, made, "agent", "role", *HEADS),
        notes=(
            "Of finished episodes; a success carries what the failures cost. 95 % bootstrap over tasks.",
            "∞: in too many of the resamples nothing succeeds, so a success may cost any amount.",
            "USD –: no price is known. Seconds: waiting for the models, not for the pages.",
        ),
    )
