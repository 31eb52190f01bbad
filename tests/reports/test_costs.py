"""Costs by role, by task and by success, and what is said where a price is not known."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.decision import Outcome, Step
from bestofq.core.errors import DataError
from bestofq.core.usage import Usage
from bestofq.reports.costs import Costs, agent_costs, cost_table, pareto_front, pareto_svg
from bestofq.reports.rows import Selection
from bestofq.store.store import Store

ASKED = Usage(role="proposer", tokens_in=1_000_000, tokens_out=100_000, calls=1, seconds=2.0, usd=2.8)
LOCAL = Usage(role="embedder", tokens_in=500_000, calls=1, seconds=0.5)


async def spend(store: Store, agent: str, name: str, steps: list[tuple[Usage, ...]], outcome: Outcome) -> None:
    taken = [
        Step(index=i, observation=page(i), decision=decision().model_copy(update={"usage": usage}))
        for i, usage in enumerate(steps)
    ]
    await record(store, agent, task(name), 0, taken, outcome)


async def fill(store: Store) -> None:
    """Prompting: two tasks of one step, one done. Best-of-Q: two of two steps, both done, and one cut before."""
    await store.begin_run("eval", {}, PROVENANCE)
    await spend(store, "prompting", "a", [(ASKED,)], "success")
    await spend(store, "prompting", "b", [(ASKED,)], "failure")
    await spend(store, "best-of-q", "a", [(ASKED, LOCAL)], "infra_error")
    await spend(store, "best-of-q", "a", [(ASKED, LOCAL)] * 2, "success")
    await spend(store, "best-of-q", "b", [(ASKED, LOCAL)] * 2, "success")


def line(table: Costs, agent: str, role: str) -> dict[str, str]:
    shown = cost_table(table)
    rows = [dict(zip(shown.heads, texts, strict=True)) for texts in shown.texts()]
    (found,) = [row for row in rows if (row["agent"], row["role"]) == (agent, role)]
    return found


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("paid") / "store") as store:
        asyncio.run(fill(store))
        yield store


def test_sums_by_role_per_task_and_per_success_with_what_was_lost(paid: Store) -> None:
    table = agent_costs(paid)
    asked = line(table, "prompting", "proposer")
    assert (asked["tokens in"], asked["tokens out"], asked["calls"]) == ("2,000,000", "200,000", "2")
    assert (asked["seconds"], asked["USD"], asked["USD/task"], asked["USD/success"]) == ("4.0", "5.60", "2.80", "5.60")
    assert (asked["tokens/task"], asked["tokens/success"]) == ("1,100,000", "2,200,000")
    ranked = next(row for row in table.rows if row.agent == "best-of-q")
    assert (ranked.tasks, ranked.successes, ranked.lost) == (2, 2, 1)
    assert ranked.roles["embedder"].tokens_in == 5 * 500_000
    assert ranked.roles["proposer"].usd == pytest.approx(5 * 2.8)
    assert any("1 episode cut" in note for note in table.notes)


def test_an_unknown_price_is_never_nothing_and_makes_its_sum_a_lower_bound(paid: Store) -> None:
    table = agent_costs(paid)
    assert line(table, "best-of-q", "embedder")["USD"] == "unknown"
    assert line(table, "best-of-q", "all")["USD/task"] == "≥ 7.00"
    assert next(row for row in table.rows if row.agent == "best-of-q").total.unpriced > 0
    assert Costs.model_validate_json(table.model_dump_json()) == table


async def test_no_success_has_no_price(store: Store) -> None:
    await spend(store, "prompting", "a", [(ASKED,)], "failure")
    table = agent_costs(store)
    with pytest.raises(DataError, match="no run 'other'"):
        agent_costs(store, Selection(runs=["other"]))
    row = line(table, "prompting", "proposer")
    assert (row["USD/success"], row["tokens/success"], row["USD/task"]) == ("–", "–", "2.80")


async def test_success_is_of_what_was_judged_and_all_of_it_is_paid_for(store: Store) -> None:
    await fill(store)
    await spend(store, "prompting", "c", [(ASKED,)], "unjudged")
    await spend(store, "random", "a", [(ASKED,)], "unjudged")
    table = agent_costs(store)
    asked, random = (next(row for row in table.rows if row.agent == name) for name in ("prompting", "random"))
    assert (asked.tasks, asked.undecided, asked.success) == (3, 1, 0.5)
    assert asked.total.usd == pytest.approx(3 * 2.8)
    assert (random.success, random.interval) == (None, None)
    assert any("2 finished episodes without a verdict" in note for note in table.notes)
    drawn = pareto_svg(table)
    assert "prompting: 50.0 %" in drawn
    assert "random" not in drawn
    assert "0.0 %" not in pareto_svg(Costs(rows=(random,)))


def test_the_plot_is_in_dollars_only_where_all_prices_are_known(paid: Store) -> None:
    costs = agent_costs(paid)
    roles = ({role: replace(spent, unpriced=0) for role, spent in row.roles.items()} for row in costs.rows)
    priced = Costs(
        rows=tuple(row.model_copy(update={"roles": own}) for row, own in zip(costs.rows, roles, strict=True))
    )
    tokens, dollars = pareto_svg(costs), pareto_svg(priced)
    assert "tokens per task (not every price is known)" in tokens
    assert "USD per task" in dollars
    assert "tokens" not in dollars
    nodes = list(ElementTree.fromstring(dollars).iter())
    (front,) = [node for node in nodes if "front" in node.get("class", "").split()]
    points = [tuple(map(float, point.split(","))) for point in front.get("points", "").split()]
    assert len(points) == 2
    assert points[0][0] < points[1][0]  # dearer to the right
    assert points[0][1] > points[1][1]  # and better above


def test_the_front_is_what_nothing_cheaper_beats() -> None:
    assert pareto_front([(2, 0.5), (1, 0.4), (3, 0.45), (3, 0.9), (1, 0.3), (4, 0.9)]) == [1, 0, 3]
