"""An agent's unlike runs are rows of their own, in every table."""

from typing import Literal

import pytest
from report_nouns import PROVENANCE, decision, of, page, record, task

from bestofq.core.decision import Outcome, Step
from bestofq.core.errors import DataError
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection, read_rows
from bestofq.reports.success import agent_results
from bestofq.store.store import Store


async def play(
    store: Store,
    run: str,
    agent: str,
    tasks: str,
    *,
    split: Literal["train", "dev", "test"] = "test",
    outcome: Outcome = "success",
    **config: str | int,
) -> None:
    await store.begin_run(run, {"split": split, **config}, PROVENANCE)
    for name in tasks:
        await record(store, agent, task(name).model_copy(update={"split": split}), 0, 2, outcome, run=run)


@pytest.fixture
async def experiment(store: Store) -> Store:
    """As the experiment leaves it: seed data, a pass over dev tasks, and the test."""
    await play(store, "seed", "explore", "xyz", split="train")
    await play(store, "dev-base", "prompting", "cd", split="dev")
    await play(store, "test", "prompting", "ab", outcome="failure")
    await play(store, "test", "best-of-q", "ab")
    return store


async def test_other_splits_are_apart_and_the_test_is_what_an_agent_is_compared_on(experiment: Store) -> None:
    table = agent_results(experiment, Selection(baseline="prompting"))
    names = [row.agent for row in table.rows]
    assert names[:2] == ["prompting", "best-of-q"]
    assert {*names[2:]} == {"prompting (dev-base, dev)", "explore (seed, train)"}
    assert (of(table, "prompting").rate.value, of(table, "prompting").tasks) == (0.0, 2)
    difference = of(table, "best-of-q").difference
    assert difference.mean == 1.0
    assert any("rows of their own" in note for note in table.notes)
    on_dev = agent_results(experiment, Selection(split="dev"))
    assert [row.agent for row in on_dev.rows] == ["prompting"]
    assert not any("rows of their own" in note for note in on_dev.notes)


async def test_every_table_has_the_same_rows(experiment: Store) -> None:
    found = gather(experiment, Selection(baseline="prompting"))
    names = {"prompting", "best-of-q", "prompting (dev-base, dev)", "explore (seed, train)"}
    assert set(found.made) == names
    assert found.made["prompting"].runs == ("test",)
    tables = {table.name: table for table in found.tables}
    for name in ("agents", "reliability"):
        assert {row.cells[0] for row in tables[name].rows} == names


async def test_other_models_or_tasks_are_apart_and_other_seeds_are_not(store: Store) -> None:
    await play(store, "zero", "prompting", "ab", outcome="failure", model="base", seed=0)
    await play(store, "zero again", "prompting", "ab", model="base", seed=1)
    await play(store, "few", "prompting", "a", model="base", seed=2)
    await play(store, "tuned", "prompting", "ab", model="tuned", seed=0)
    rows = read_rows(store)
    table = agent_results(store, Selection(baseline="prompting (zero, zero again)", agents=["prompting"]))
    with pytest.raises(DataError, match=r"3 rows, because its runs differ: .*Give --baseline 'prompting "):
        agent_results(store, Selection(baseline="prompting"))
    assert [row.agent for row in agent_results(store, Selection(runs=["tuned"], baseline="prompting")).rows] == [
        "prompting"
    ]
    assert set(rows.of("prompting")) == {
        "prompting (zero, zero again)",
        "prompting (few)",
        "prompting (tuned)",
    }
    assert of(table, "prompting (zero, zero again)").rate.value == 0.5
    assert of(table, "prompting (tuned)").difference is not None


async def test_an_agent_whose_settings_another_agent_of_the_run_does_not_share(store: Store) -> None:
    await store.begin_run("one", {}, PROVENANCE, agents={"picker": {"n": 3}})
    await store.begin_run("two", {}, PROVENANCE, agents={"picker": {"n": 5}})
    for run in ("one", "two"):
        await record(store, "prompting", task("a"), 0, 1, run=run)
        await record(store, "picker", task("a"), 0, 1, run=run)
    assert [row.agent for row in agent_results(store).rows] == ["prompting", "picker (one)", "picker (two)"]


async def test_two_q_functions_are_two_rows_even_in_one_run(store: Store) -> None:
    for run, checkpoint, tasks in (("a", "value-1111111", "tu"), ("b", "value-2222222", "tu"), ("c", None, "t")):
        await store.begin_run(run, {}, PROVENANCE)
        for name in tasks:
            taken = decision().model_copy(update={"checkpoint": checkpoint})
            step = Step(index=0, observation=page(0), decision=taken)
            await record(store, "q" if checkpoint else "prompting", task(name), 0, [step], run=run)
    taken = decision().model_copy(update={"checkpoint": "value-2222222"})
    step = Step(index=0, observation=page(0), decision=taken)
    await record(store, "q", task("t"), 1, [step], "failure", run="a")  # a run that went on with another
    table = agent_results(store, Selection(agents=["q"]))
    assert [(name, of(table, name).rate.value) for name in sorted(row.agent for row in table.rows)] == [
        ("q @111111", 1.0),
        ("q @222222 (a)", 0.0),
        ("q @222222 (b)", 1.0),
    ]
    assert read_rows(store).baseline() == "prompting"
    assert read_rows(store, Selection(runs=["a", "b"])).baseline() == "q @111111"


async def test_what_a_run_keeps_of_an_agent_holds_for_its_rows_whatever_they_are_called(store: Store) -> None:
    for run, split, n in (("a", "test", 5), ("b", "dev", 8)):
        kept = {"best-of-q": {"n": n}}
        await store.begin_run(run, {"split": split, "n_candidates": 3}, PROVENANCE, agents=kept)
        one = task("t").model_copy(update={"split": split})
        await record(store, "best-of-q", one, 0, 2, "success", run=run)
    made = gather(store).made
    assert {name: one.n for name, one in made.items()} == {"best-of-q": 5, "best-of-q (b, dev)": 8}


async def test_the_search_of_another_agent_makes_no_run_unlike(store: Store) -> None:
    searched = {"mcts": {"iterations": 9}}
    await store.begin_run("a", {"split": "test"}, PROVENANCE, searches=searched, agents=searched)
    await play(store, "a", "prompting", "t")
    await play(store, "b", "prompting", "t")
    assert [(row.agent, row.runs) for row in agent_results(store).rows] == [("prompting", 2)]


async def test_a_pass_of_which_the_infrastructure_cut_an_episode_is_a_pass_of_its_row(store: Store) -> None:
    await play(store, "a", "prompting", "tu")
    await play(store, "b", "prompting", "t")
    await record(store, "prompting", task("u"), 0, 1, "infra_error", run="b")
    await play(store, "half", "prompting", "t")
    assert [row.agent for row in agent_results(store).rows] == ["prompting (a, b)", "prompting (half)"]
