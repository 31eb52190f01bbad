from pathlib import Path

from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Step
from bestofq.core.usage import Usage
from bestofq.reports.behaviour import behaviour
from bestofq.reports.differences import compared, differences
from bestofq.reports.spending import spending
from bestofq.reports.stats import Measure
from bestofq.store.store import Store


def value(measure: Measure) -> float:
    assert measure.value is not None
    return round(measure.value, 6)


async def test_repetitions_loops_and_duplicates_are_counted(tmp_path: Path) -> None:
    same = Decision(
        candidates=(Candidate(action=Click(mark=1), label="click"), Candidate(action=Click(mark=2), label="click")),
        scores=(0.0, 0.0),
        chosen=0,
        explored=True,
    )
    seen = [page(0), page(1), page(0), page(0), page(2).model_copy(update={"error": "nothing there"})]
    steps = [Step(index=i, observation=p, decision=same if i == 4 else decision(chosen=0)) for i, p in enumerate(seen)]
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        await record(store, "a", task("t"), 0, steps, "failure")
        await record(store, "a", task("u"), 0, 1)
        await record(store, "b", task("u"), 0, 1)
        found = behaviour(list(store.episodes()), "a")
    assert found.episodes == 2
    assert value(found.candidates) == round((5 * 3 + 2) / 6, 6)
    assert value(found.short) == round(1 / 6, 6)
    assert value(found.duplicates) == round(1 / 17, 6)
    assert value(found.explored) == round(1 / 6, 6)
    assert value(found.repeated) == round(2 / 6, 6)  # scroll down on page 0 again, and again
    assert value(found.returned) == round(1 / 6, 6)  # to page 0; staying on it is no return
    assert value(found.failed) == round(1 / 6, 6)
    assert value(found.looping) == 0.5
    assert value(found.steps) == 3.0
    assert found.steps.interval is not None
    assert (found.steps.interval.low, found.steps.interval.high) == (1.0, 5.0)


async def test_differences_are_paired_over_common_tasks(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        for name, ours, theirs in (("t", 2, 3), ("u", 1, 4)):
            await record(store, "a", task(name), 0, ours)
            await record(store, "base", task(name), 0, theirs, "failure")
        await record(store, "base", task("other"), 0, 9)  # a task that only one did says nothing
        read = list(store.episodes())
    rows = differences(compared(read, ["a", "base"]), ["a", "base"], "base")
    assert {(row.agent, row.against) for row in rows} == {("a", "base")}
    found = {row.what: row.difference for row in rows}
    steps, tokens = found["steps / episode"], found["tokens / task"]
    assert (steps.mean, steps.low, steps.high, steps.tasks) == (-2.0, -3.0, -1.0, 2)
    assert tokens.mean == -2.0 * 1030
    assert not {"tokens / success", "USD / task"} & set(found)  # the baseline has no success there; no price is known


async def test_spending_is_by_role_and_a_success_carries_the_failures(tmp_path: Path) -> None:
    def paid(index: int, usd: float | None) -> Step:
        usage = (
            Usage(role="proposer", tokens_in=90, tokens_out=10, seconds=2.0, usd=usd),
            Usage(role="embedder", tokens_in=50, seconds=0.5),
        )
        return Step(index=index, observation=page(index), decision=decision().model_copy(update={"usage": usage}))

    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        await record(store, "a", task("t"), 0, [paid(0, 0.01)])
        await record(store, "a", task("u"), 0, [paid(0, 0.01), paid(1, 0.02)], "failure")
        read = list(store.episodes())
    proposer, embedder, whole = spending(read, "a")
    assert (proposer.role, embedder.role, whole.role) == ("proposer", "embedder", "all")
    assert (value(proposer.tokens), value(proposer.tokens_per_success)) == (150.0, 300.0)
    assert (value(proposer.seconds), value(proposer.seconds_per_success)) == (3.0, 6.0)
    assert (value(proposer.usd), value(proposer.usd_per_success)) == (0.02, 0.04)
    assert embedder.usd == whole.usd == Measure(value=None)  # a price that is not known is never 0
    assert value(whole.tokens) == 225.0
    priced = spending(read, "a", prices={"embedder": (1000.0, 0.0)})
    assert value(priced[-1].usd) == round(0.02 + 0.075, 6)


async def test_another_button_with_the_same_words_is_no_repetition(tmp_path: Path) -> None:
    both = tuple(Candidate(action=Click(mark=mark), label="click button Add to cart") for mark in (1, 2))
    steps = [
        Step(index=at, observation=page(0), decision=Decision(candidates=both, scores=(0.0, 0.0), chosen=chosen))
        for at, chosen in enumerate((0, 1, 0))
    ]
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        await record(store, "a", task("t"), 0, steps, "failure")
        found = behaviour(list(store.episodes()), "a")
    assert value(found.repeated) == round(1 / 3, 6)
