"""An agent's unlike runs are rows of their own, in every table."""

from random import Random

import numpy as np
import pytest
from report_nouns import PROVENANCE, of, record, scored_by, task

from bestofq.core.decision import Outcome
from bestofq.core.errors import DataError
from bestofq.core.observation import Split
from bestofq.reports.report import gather
from bestofq.reports.rollout import RATES, RISK, Rollout, Tried, _log_evidence, difference_bounds
from bestofq.reports.rows import Selection, read_rows
from bestofq.reports.success import agent_results
from bestofq.store.store import Store


async def play(
    store: Store,
    run: str,
    agent: str,
    tasks: str,
    *,
    split: Split = "test",
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
    assert set(rows.of("prompting")) == {"prompting (zero, zero again)", "prompting (few)", "prompting (tuned)"}
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
            await record(store, "q" if checkpoint else "prompting", task(name), 0, scored_by(checkpoint), run=run)
    await record(store, "q", task("t"), 1, scored_by("value-2222222"), "failure", run="a")  # it went on with another
    table = agent_results(store, Selection(agents=["q"]))
    assert len(table.rows) == 3
    rates = {row.agent: of(table, row.agent).rate.value for row in table.rows}
    assert rates == {"q @111111": 1.0, "q @222222 (a)": 0.0, "q @222222 (b)": 1.0}
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
    await store.begin_run("a", {"split": "test"}, PROVENANCE, agents=searched)
    await play(store, "a", "prompting", "t")
    await play(store, "b", "prompting", "t")
    assert [(row.agent, row.runs) for row in agent_results(store).rows] == [("prompting", 2)]


async def test_a_pass_of_which_the_infrastructure_cut_an_episode_is_a_pass_of_its_row(store: Store) -> None:
    await play(store, "a", "prompting", "tu")
    await play(store, "b", "prompting", "t")
    await record(store, "prompting", task("u"), 0, 1, "infra_error", run="b")
    await play(store, "half", "prompting", "t")
    assert [row.agent for row in agent_results(store).rows] == ["prompting (a, b)", "prompting (half)"]


def test_without_sessions_nothing_is_known_and_a_tenth_is_ranked() -> None:
    bounds = difference_bounds(Tried(), Tried())
    assert (bounds.low, bounds.high) == (-1, 1)
    assert Rollout().share == pytest.approx(0.1)


def test_the_interval_ends_where_the_mixture_s_likelihood_is_twenty_times_the_rates() -> None:
    """Ten of ten succeed ranked, none of ten without. The mixture's likelihood is 1/11 in each arm, that of rates
    (p, q) is p^10 and (1 - q)^10. By symmetry p = 1 - q at the least difference: (11^2 p^20)^-1 = 20."""
    rate = (20 * 11**2) ** (-1 / 20)
    bounds = difference_bounds(Tried(won=10), Tried(lost=10))
    assert bounds.high == 1
    assert bounds.low == pytest.approx(2 * rate - 1, abs=0.011)
    assert bounds.low <= 2 * rate - 1


def test_the_interval_holds_every_pair_of_rates_that_the_sessions_allow() -> None:
    rng = np.random.default_rng(0)
    for counts in rng.integers(0, 40, (40, 4)).tolist():
        ranked, own = Tried(*counts[:2]), Tried(*counts[2:])
        allowed = _log_evidence(ranked)[:, None] + _log_evidence(own)[None, :] < np.log(20)
        differences = (RATES[:, None] - RATES[None, :])[allowed]
        bounds = difference_bounds(ranked, own)
        assert bounds.low == pytest.approx(max(-1, differences.min() - RATES[1]))
        assert bounds.high == pytest.approx(min(1, differences.max() + RATES[1]))


@pytest.mark.parametrize(("gain", "promise"), [(-0.3, "ends"), (0.0, "neither"), (0.3, "all")])
def test_its_promises_hold_by_chance(gain: float, promise: str) -> None:
    ended = raised = 0
    for seed in range(20):
        random, state, reached = Random(seed), Rollout(), False
        for _ in range(500):
            ranked = random.random() < state.share
            state = state.after(random.random() < 0.5 + gain * ranked, ranked=ranked)
            reached |= state.share == 1
            if reached or state.stopped:
                break
        ended, raised = ended + state.stopped, raised + reached
    assert (ended >= 18, raised >= 18) == (promise == "ends", promise == "all")
    assert promise == "ends" or ended <= 4
    assert promise == "all" or raised <= 4


def test_what_may_be_lost_is_bounded_at_every_moment() -> None:
    random, state = Random(1), Rollout()
    for _ in range(300):
        assert state.share * -min(0, state.bounds.low) <= RISK + 1e-9 or state.share == 0
        ranked = random.random() < state.share
        state = state.after(random.random() < 0.6, ranked=ranked)


def test_it_never_returns_after_it_ended() -> None:
    state = Rollout()
    for _ in range(12):
        state = state.after(False, ranked=True).after(True, ranked=False)
    assert state.stopped
    for _ in range(200):
        state = state.after(False, ranked=False)
    assert (state.stopped, state.share) == (True, 0)
