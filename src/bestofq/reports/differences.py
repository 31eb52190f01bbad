"""What an agent does and spends more or less of than a baseline on the same tasks: differences paired by task."""

from collections.abc import Mapping, Sequence

from bestofq.core.decision import Episode
from bestofq.reports import stats
from bestofq.reports.behaviour import habits
from bestofq.reports.costs import Prices
from bestofq.reports.origin import Origin
from bestofq.reports.sheet import Column, Row, Sheet
from bestofq.reports.spending import ALL, spent_by_task
from bestofq.reports.stats import Difference, Tally

_HABITS = (("repeated", "same step again"), ("returned", "page again"), ("looping", "episodes in a loop"))
_SPENT = (
    *(("tokens", "tokens / task"), ("seconds", "seconds / task"), ("usd", "USD / task")),
    *(("tokens_per_success", "tokens / success"), ("seconds_per_success", "seconds / success")),
    ("usd_per_success", "USD / success"),
)


def differences(
    episodes: Sequence[Episode], agent: str, baseline: str, *, prices: Prices | None = None
) -> dict[str, Difference | None]:
    """By what it is: the agent's minus the baseline's, over the tasks of both. None where it is undefined or a price is
    not known."""
    ours, theirs = _tallies(episodes, agent, prices), _tallies(episodes, baseline, prices)

    def paired(name: str) -> Difference | None:
        mine, other = ours.get(name), theirs.get(name)
        return None if mine is None or other is None else stats.paired_ratio(mine, other)

    return {head: paired(name) for name, head in (("steps", "steps / episode"), *_HABITS, *_SPENT)}


def differences_sheet(
    episodes: Sequence[Episode], made: Mapping[str, Origin], baseline: str, *, prices: Prices | None = None
) -> Sheet:
    """A row an agent and measure."""
    rows = [
        Row(cells=(agent, head, found), origin=made[agent])
        for agent in made
        if agent != baseline
        for head, found in differences(episodes, agent, baseline, prices=prices).items()
        if found is not None
    ]
    return Sheet(
        name="differences",
        title=f"Differences to {baseline}",
        columns=(Column(name="agent"), Column(name="what"), Column(name="difference", signed=True, digits=None)),
        rows=tuple(rows),
        notes=(
            "The agent's minus the baseline's on the tasks of both, shares in [0, 1]; 95 % bootstrap, paired by task.",
        ),
    )


def _tallies(episodes: Sequence[Episode], agent: str, prices: Prices | None) -> dict[str, Tally | None]:
    return {**habits(episodes, agent), **spent_by_task(episodes, agent, prices=prices).get(ALL, {})}
