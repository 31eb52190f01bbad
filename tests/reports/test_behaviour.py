from report_nouns import decision, page, record, task

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Step
from bestofq.core.usage import Usage
from bestofq.reports.behaviour import behaviour_table, habits
from bestofq.reports.costs import measure_costs
from bestofq.reports.report import differences_table, measure_agents
from bestofq.reports.stats import Measure, PairedDifference, Quantity
from bestofq.reports.table import RowSource
from bestofq.store.store import Store


def value(quantity: Quantity) -> float:
    assert quantity.measure.value is not None
    assert quantity.measure.value == quantity.value
    return round(quantity.measure.value, 6)


async def test_repetitions_loops_and_duplicates_are_counted(store: Store) -> None:
    same = Decision(
        candidates=(Candidate(action=Click(mark=1), label="click"), Candidate(action=Click(mark=2), label="click")),
        scores=(0.0, 0.0),
        chosen=0,
        explored=True,
    )
    seen = [page(0), page(1), page(0), page(0), page(2).model_copy(update={"error": "nothing there"})]
    steps = [Step(index=i, observation=p, decision=same if i == 4 else decision(chosen=0)) for i, p in enumerate(seen)]
    await record(store, "a", task("t"), 0, steps, "failure")
    await record(store, "a", task("u"), 0, 1)
    await record(store, "b", task("u"), 0, 1)
    read = list(store.episodes())
    found = habits(read, "a")
    table = behaviour_table(read, {"a": RowSource(runs=("eval",), repeats=1, n=3)})
    assert table.rows[0].cells[1] == 2  # episodes
    assert value(found["candidates / step"]) == round((5 * 3 + 2) / 6, 6)
    assert value(found["short %"]) == round(1 / 6, 6)
    assert value(found["duplicates %"]) == round(1 / 17, 6)
    assert value(found["explored %"]) == round(1 / 6, 6)
    assert value(found["same step again %"]) == round(2 / 6, 6)  # scroll down on page 0 again, and again
    assert value(found["page again %"]) == round(1 / 6, 6)  # to page 0; staying on it is no return
    assert value(found["failed actions %"]) == round(1 / 6, 6)
    assert value(found["episodes in a loop %"]) == 0.5
    assert value(found["steps / episode"]) == 3.0
    interval = found["steps / episode"].measure.interval
    assert (interval.low, interval.high) == (1.0, 5.0)


async def test_differences_are_paired_over_common_tasks(store: Store) -> None:
    for name, ours, theirs in (("t", 2, 3), ("u", 1, 4)):
        await record(store, "a", task(name), 0, ours)
        await record(store, "base", task(name), 0, theirs, "failure")
    await record(store, "base", task("other"), 0, 9)  # a task that only one did says nothing
    read = list(store.episodes())
    rows = [row.cells for row in differences_table(measure_agents(read, ["a", "base"]), "base", {}).rows]
    assert {row[:2] for row in rows} == {("a", "base")}
    found = {row[2]: row[3] for row in rows}
    assert found["steps / episode"] == PairedDifference(mean=-2.0, low=-3.0, high=-1.0, tasks=2)
    tokens = found["tokens / task"]
    assert isinstance(tokens, PairedDifference)
    assert tokens.mean == -2.0 * 1030
    assert not {"tokens / success", "USD / task"} & set(found)  # the baseline has no success there; no price is known


async def test_spending_is_by_role_and_a_success_carries_the_failures(store: Store) -> None:
    def paid(index: int, usd: float | None) -> Step:
        usage = (
            Usage(role="proposer", tokens_in=90, tokens_out=10, seconds=2.0, usd=usd),
            Usage(role="embedder", tokens_in=50, seconds=0.5),
        )
        return Step(index=index, observation=page(index), decision=decision().model_copy(update={"usage": usage}))

    await record(store, "a", task("t"), 0, [paid(0, 0.01)])
    await record(store, "a", task("u"), 0, [paid(0, 0.01), paid(1, 0.02)], "failure")
    read = list(store.episodes())
    found = measure_costs(read, "a")
    assert [*found] == ["proposer", "embedder", "all"]
    proposer, embedder, whole = found.values()
    assert (value(proposer["tokens / task"]), value(proposer["tokens / success"])) == (150.0, 300.0)
    assert (value(proposer["seconds / task"]), value(proposer["seconds / success"])) == (3.0, 6.0)
    assert (value(proposer["USD / task"]), value(proposer["USD / success"])) == (0.02, 0.04)
    assert embedder["USD / task"].measure == whole["USD / task"].measure == Measure(value=None)  # unknown is never 0
    assert value(whole["tokens / task"]) == 225.0
    priced = measure_costs(read, "a", prices={"embedder": (1000.0, 0.0)})
    assert value(priced["all"]["USD / task"]) == round(0.02 + 0.075, 6)


async def test_another_button_with_the_same_words_is_no_repetition(store: Store) -> None:
    both = tuple(Candidate(action=Click(mark=mark), label="click button Add to cart") for mark in (1, 2))
    steps = [
        Step(index=at, observation=page(0), decision=Decision(candidates=both, scores=(0.0, 0.0), chosen=chosen))
        for at, chosen in enumerate((0, 1, 0))
    ]
    await record(store, "a", task("t"), 0, steps, "failure")
    found = habits(list(store.episodes()), "a")
    assert value(found["same step again %"]) == round(1 / 3, 6)
