"""Time, tokens and money by role, per task and per success, with intervals (Best-of-Q, 4.4 and J).

`costs.py` sums them up; here tasks are resampled, so that two agents can be told apart. A price that is not known
leaves USD undefined: it is never taken for 0. Only finished episodes, since only those have a task.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Self, get_args

from bestofq.core.decision import Episode
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Role, Usage
from bestofq.reports.stats import Quantity, tally_by_task
from bestofq.reports.table import Column, Row, RowSource, Table, columns

ALL = "all"
Prices = Mapping[Role, tuple[float, float]]
"""USD per million tokens, in and out, of a role; for the Q-function's embedder see Best-of-Q, Table 13."""


class Spent(FrozenModel):
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


def spent_by_role(usages: Iterable[Usage]) -> dict[str, Spent]:
    """Sums by role, in order of first appearance; a last one over all (`ALL`) where there are several."""
    roles: dict[str, Spent] = defaultdict(Spent)
    for used in usages:
        roles[used.role] += Spent.of(used)
    return {**roles, ALL: sum(roles.values(), Spent())} if len(roles) > 1 else dict(roles)


HEADS = {
    "tokens / task": ("tokens", False, 0),
    "seconds / task": ("seconds", False, 2),
    "USD / task": ("usd", False, 5),
    "tokens / success": ("tokens", True, 0),
    "seconds / success": ("seconds", True, 2),
    "USD / success": ("usd", True, 5),
}
"""What is measured: the sum of `Spent` that is spread, whether over successes, and the digits that are shown."""


def tabulate_spending(
    episodes: Iterable[Episode], agent: str, *, prices: Prices | None = None
) -> dict[str, dict[str, Quantity]]:
    """By role (`ALL` last), then by head. Undefined for unknown prices; `prices` where the store has none."""
    used: dict[str, dict[Hashable, Spent]] = defaultdict(lambda: defaultdict(Spent))  # by role, by task
    done: list[tuple[Hashable, bool]] = []  # an episode's task, and whether it succeeded
    for episode in episodes:
        if episode.agent == agent:
            task = (episode.task.suite, episode.task.id)
            done.append((task, episode.verdict.outcome == "success"))
            for usage in episode.usage:
                for role in (usage.role, ALL):
                    used[role][task] += Spent.of(usage, prices)

    def quantity(spent: Mapping[Hashable, Spent], amount: str, per_success: bool) -> Quantity:
        if amount == "usd" and any(one.unpriced for one in spent.values()):
            return Quantity({})
        wholes = tally_by_task((task, 0, won if per_success else 1) for task, won in done)
        return Quantity({task: (getattr(spent[task], amount), whole) for task, (_, whole) in wholes.items()})

    roles = {role: used[role] for role in (*get_args(Role), ALL) if role in used}
    return {
        role: {head: quantity(spent, amount, won) for head, (amount, won, _) in HEADS.items()}
        for role, spent in roles.items()
    }


def spending_table(
    episodes: Sequence[Episode], made: Mapping[str, RowSource], *, prices: Prices | None = None
) -> Table:
    """A row an agent of `made` and role; one of all roles where there are several."""
    by_agent = {agent: tabulate_spending(episodes, agent, prices=prices) for agent in made}
    return Table(
        name="spending",
        title="Tokens, seconds and USD by role",
        columns=(
            *columns("agent", "role"),
            *(Column(name=head, digits=digits) for head, (_, _, digits) in HEADS.items()),
        ),
        rows=tuple(
            Row(cells=(agent, role, *(quantity.measure for quantity in found.values())), origin=made[agent])
            for agent, roles in by_agent.items()
            for role, found in roles.items()
            if role != ALL or len(roles) > 2
        ),
        notes=(
            "Of finished episodes; a success carries what the failures cost. 95 % bootstrap over tasks.",
            "∞: in too many of the resamples nothing succeeds, so a success may cost any amount.",
            "USD –: no price is known. Seconds: waiting for the models, not for the pages.",
        ),
    )
