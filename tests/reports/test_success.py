"""Success by agent, by domain and by settings."""

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_nouns import PROVENANCE, of, record, scored_by, task

from bestofq.core.decision import Outcome, Verdict
from bestofq.core.errors import DataError
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection, suffixes
from bestofq.reports.stats import Tries
from bestofq.reports.success import ALL, Grouping, agent_results, by_setting, domain_grid, domain_results, success_table
from bestofq.store.store import Store
from bestofq.store.tally import OUTCOMES, Tally

AGAINST_PROMPTING = Selection(baseline="prompting")
FIRST, SECOND = "value-3fa2c1aaaaaaaaaa", "value-3fa2c9bbbbbbbbbb"


def test_a_row_holds_what_the_store_holds_and_the_baseline_comes_first(two_agents: Store) -> None:
    found = agent_results(two_agents, AGAINST_PROMPTING)
    assert [row.agent for row in found.rows] == ["prompting", "best|of[q]"]
    assert found.runs == ("eval",)
    assert Grouping.model_validate_json(found.model_dump_json()).model_dump() == found.model_dump()
    base, row = found.rows
    assert base.difference is None
    assert (row.success.mean, row.success.runs, row.success.error) == (0.75, 2, pytest.approx(0.25))
    assert row.steps_for_success.mean == pytest.approx((2.5 + 2) / 2)
    assert (row.episodes, row.tasks, row.runs) == (4, 2, 2)
    assert row.outcomes == {"success": 3, "blocked": 1, "infra_error": 1}
    assert (row.difference.mean, row.difference.tasks) == (0.25, 2)
    assert any("1 episode cut" in note for note in found.notes)
    markdown = success_table(found).to_markdown()
    assert r"| best\|of[q] | 75.0 [" in markdown
    assert "| +25.0 [+0.0, +50.0] | 2 | 4 | 3 success, 1 blocked (of 4)" in markdown
    alone = agent_results(two_agents, Selection(agents=["best|of[q]"], baseline="prompting"))
    assert [(row.agent, row.difference) for row in alone.rows] == [("best|of[q]", row.difference)]


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(runs=["evil"]), "there is no run 'evil' in the store: it has eval"),
        (Selection(baseline="random"), "agent 'random' has no finished episode in eval"),
        (Selection(agents=["nobody"]), "agent 'nobody' has no finished episode"),
        (Selection(split="train"), "no episode is finished in eval"),
    ],
)
def test_what_is_not_there_is_named(two_agents: Store, selection: Selection, words: str) -> None:
    with pytest.raises(DataError, match=words):
        agent_results(two_agents, selection)


def test_tables_of_success_decode_no_step(two_agents: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlib.decompressobj", None)
    assert len(agent_results(two_agents).rows) == len(domain_results(two_agents).rows) / 2 == 2


def test_the_episodes_are_a_frame(two_agents: Store) -> None:
    by_task = two_agents.frame(agent="prompting").group_by("task").aggregate([("steps", "sum")])
    assert by_task.sort_by("task").to_pydict() == {"task": ["a", "b"], "steps_sum": [8, 12]}
    assert two_agents.frame(agent="nobody").num_rows == 0


async def test_passes_over_the_same_and_over_other_tasks(store: Store) -> None:
    for run in ("eval", "again"):
        await store.begin_run(run, {} if run == "eval" else {"seed": 1}, PROVENANCE)
        for name in "ab":
            outcome: Outcome = "success" if (run, name) == ("eval", "a") else "failure"
            await record(store, "q", task(name), 0, 4, outcome, run=run)
    row = of(agent_results(store), "q")
    assert (row.rate.value, row.runs, row.tasks, row.episodes) == (0.25, 2, 2, 4)
    assert of(agent_results(store, Selection(runs=["eval"])), "q").rate.value == 0.5
    for repeat in range(1, 10):
        await record(store, "q", task("a"), repeat, 4)
    row = of(agent_results(store), "q")
    assert (row.rate.value, row.runs) == (pytest.approx((10 / 11 + 0) / 2), 11)  # the mean of the runs' means is higher
    assert row.interval.low <= (10 / 11) / 2 <= row.interval.high


async def test_the_tables_say_whose_verdicts_they_hold(store: Store) -> None:
    await record(store, "prompting", task("a"), 0, 1)
    assert not any("judge" in note for note in agent_results(store).notes)
    episode = await record(store, "prompting", task("c"), 0, 1, "unjudged")
    await store.add_verdict(episode, Verdict(reward=0.0, outcome="failure", judge="a judge"), adopt=True)
    dev = task("d").model_copy(update={"split": "dev"})
    episode = await record(store, "prompting", dev, 0, 1, "unjudged")
    await store.add_verdict(episode, Verdict(reward=0.0, outcome="failure", judge="a judge"), adopt=True)
    selection = Selection(split="test")
    for found in (agent_results(store, selection), domain_results(store, selection)):
        assert any(note.startswith("1 of 2 verdicts are a judge's. ") for note in found.notes)


def test_attempts_over_100_000_episodes_are_counted_in_a_fraction_of_a_second() -> None:
    """Per agent 20 passes over 1,000 tasks, as the store groups them."""
    rng = np.random.default_rng(0)
    task, repeat = (part.ravel() for part in np.mgrid[:1000, :20])
    lost = (rng.random(20_000) >= task / 1000).astype(np.int64)
    attempts = np.stack([task, repeat, lost, np.zeros_like(task), np.full_like(task, 7)], axis=1)
    tally = Tally("eval", "q", "finished", "shop", "test", None, tuple(map(str, range(1000))), attempts)
    began = time.process_time()
    for _ in range(5):
        tries = Tries.of_tallies([tally])
        assert (tries.done.shape, tries.done.sum()) == ((1000, 20), 20_000)
        assert tries.rates.mean() == pytest.approx(0.5, abs=0.02)
    assert time.process_time() - began < 0.5  # 0.05 on a quiet machine


async def test_the_database_groups_attempts_by_agent_suite_split_and_q_function(store: Store) -> None:
    await record(store, "q", task("b"), 0, scored_by(FIRST))
    await record(store, "q", task("a"), 1, scored_by(FIRST), "blocked")
    await record(store, "q", task("a"), 0, 2, "infra_error")
    await record(store, "q", task("c").model_copy(update={"split": "dev"}), 0, 3, "unjudged")
    judged = await record(store, "q", task("a"), 3, scored_by(FIRST), "unjudged")
    await store.add_verdict(judged, Verdict(reward=0.0, outcome="failure", judge="j"), adopt=True)
    found = [(t.status, t.split, t.checkpoint, t.tasks, t.attempts.tolist()) for t in store.tallies(["eval"])]
    at = {name: index for index, name in enumerate(OUTCOMES)}
    assert found == [
        ("cut", "test", None, ("a",), [[0, 0, at["infra_error"], 0, 2]]),
        ("finished", "dev", None, ("c",), [[0, 0, at["unjudged"], 0, 3]]),
        (
            *("finished", "test", FIRST, ("a", "b")),
            [[0, 1, at["blocked"], 0, 1], [0, 3, at["failure"], 1, 1], [1, 0, at["success"], 0, 1]],
        ),
    ]


async def test_rows_by_domain(store: Store) -> None:
    for repeat in (0, 1):
        await record(store, "prompting", task("Soup [x]--0"), repeat, 1)
        await record(store, "prompting", task("Soup [x]--1"), repeat, 1, "success" if repeat else "failure")
        await record(store, "prompting", task("Bread--0"), repeat, 1, "unparseable" if repeat else "blocked")
        await record(store, "random", task("Bread--0"), repeat, 1, "unjudged")
    await record(store, "prompting", task("Bread--1"), 0, 1, "infra_error")
    found = domain_results(store)
    assert [row.values for row in found.rows[::2]] == [(name, "prompting") for name in ("Bread", "Soup [x]", ALL)]
    bread, random, soup, _, total, _ = found.rows
    assert (soup.success.mean, soup.success.error, soup.success.runs) == (0.75, 0.25, 2)
    assert (soup.episodes, soup.tasks) == (4, 2)
    assert (bread.rate.value, bread.episodes) == (0.0, 1)
    assert bread.outcomes == {"blocked": 1, "unparseable": 1, "infra_error": 1}
    assert (random.success, random.outcomes) == (None, {"unjudged": 2})
    assert (total.rate.value, total.episodes) == (pytest.approx((0 + 1 + 1 / 2) / 3), 5)  # over tasks: runs differ
    assert total.success == agent_results(store, Selection(agents=["prompting"])).rows[0].success
    by_first = domain_results(store, by=lambda name: name[0])
    assert [row.values[0] for row in by_first.rows[::2]] == ["B", "S", ALL]
    grid = domain_grid(found)
    assert "| Soup [x] | 2 | 75.0 ± 25.0 | – |" in grid.to_markdown().splitlines()
    assert "prompting: 3 success, 1 failure, 1 blocked (of 5); apart: 1 unparseable, 1 infra error." in grid.notes
    assert any("1 unparseable and 2 unjudged episodes: " in note for note in found.notes)
    with pytest.raises(DataError, match=r"none of the 2 .* 'random' has a verdict: run `bestofq judge`"):
        agent_results(store, Selection(agents=["random"]))


async def test_agents_are_compared_in_each_domain_on_the_tasks_of_both(store: Store) -> None:
    outcomes: dict[str, tuple[Outcome, Outcome]] = {  # of prompting and q
        "Soup--0": ("failure", "success"),
        "Soup--1": ("success", "success"),
        "Bread--0": ("success", "failure"),
    }
    for name, both in outcomes.items():
        for agent, outcome in zip(("prompting", "q"), both, strict=True):
            await record(store, agent, task(name), 0, 1, outcome)
    await record(store, "q", task("Soup--2"), 0, 1, "failure")  # which prompting never tried
    await record(store, "q", task("Fish--0"), 0, 1)
    found = domain_results(store, AGAINST_PROMPTING)
    rows = {row.values: row.difference for row in found.rows}
    assert {values for values, difference in rows.items() if difference is None} == {
        *((domain, "prompting") for domain in ("Bread", "Fish", "Soup", ALL)),
        ("Fish", "q"),
    }
    soup, bread = rows["Soup", "q"], rows["Bread", "q"]
    assert (soup.mean, soup.low, soup.high, soup.tasks) == (0.5, 0.0, 1.0, 2)  # 0 or 1 a task, two tasks
    assert (bread.mean, bread.low, bread.tasks) == (-1.0, -1.0, 1)
    assert bread.high == pytest.approx(-1 + 2 * 0.975)  # the exact bound of one task
    assert rows[ALL, "q"] == of(agent_results(store, AGAINST_PROMPTING), "q").difference
    lines = domain_grid(found).to_markdown().splitlines()
    assert lines[0] == "| domain | tasks | prompting % | q % | q − prompting % |"
    assert "| Soup | 3 | 50.0 | 66.7 | +50.0 [+0.0, +100.0] |" in lines
    assert any("paired by task" in note for note in found.notes)
    assert "−" not in domain_grid(domain_results(store)).to_markdown()
    (table,) = (table for table in gather(store, AGAINST_PROMPTING).tables if table.name == "domains")
    (cells,) = (row for row in csv.DictReader(table.to_csv().splitlines()) if row["domain"] + row["agent"] == "Soupq")
    assert (cells["difference"], cells["difference low"], cells["difference high"]) == ("0.5", "0.0", "1.0")


@pytest.fixture
async def settings(store: Store) -> Store:
    """Two runs that differ in epsilon; task a is solved in both, b only with 0.5."""
    for run, epsilon in (("low", 0.1), ("high", 0.5)):
        made = PROVENANCE.model_copy(update={"command": f"bestofq collect --run {run}"})
        agents = {"q": {"n": 3}}
        await store.begin_run(run, {"epsilon": epsilon, "model": {"path": "pocket"}}, made, agents=agents)
        for repeat in (0, 1):
            await record(store, "q", task("a"), repeat, 4, run=run)
            await record(store, "q", task("b"), repeat, 6, "success" if run == "high" else "failure", run=run)
        await record(store, "other", task("a"), 0, 2, "failure", run=run)
    return store


def values_of(stores: dict[str, Store], *keys: str, **selection: Any) -> list[tuple[str, ...]]:
    return [row.values for row in by_setting(stores, keys, Selection(**selection)).rows]


async def test_runs_are_grouped_by_a_setting_and_compared_with_the_first(settings: Store) -> None:
    found = by_setting({"here": settings}, ["epsilon"], Selection(agents=["q"]))
    high, low = found.rows
    shown = [(*row.values, row.rate.value, row.tasks, row.episodes) for row in found.rows]
    assert shown == [("0.5", 1.0, 2, 4), ("0.1", 0.5, 2, 4)]
    assert high.difference is None
    assert (low.difference.mean, low.difference.low, low.difference.high) == (-0.5, -1.0, 0.0)
    assert low.origin.commands == ("bestofq collect --run low",)
    table = success_table(found)
    assert table.name == "by-epsilon"
    texts = ("0.1", "50.0 [0.0, 100.0]", "0.0", "4.0", "0.0", "-50.0 [-100.0, +0.0]", "2", "4")
    assert table.texts()[1][:-1] == texts


async def test_several_keys_and_stores_make_one_row_each(settings: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "second") as second:
        await second.begin_run("low", {"epsilon": 0.1}, PROVENANCE)
        await record(second, "q", task("a"), 0, 1, run="low")
        await second.begin_run("r", {"epsilon": 0.1}, PROVENANCE)
        await record(second, "alone", task("a"), 0, 1, run="r")
        both = {"one": settings, "two": second}
        assert values_of(both, "store", "agent", "model.path", "N", runs=["low"]) == [
            ("one", "other", "pocket", "–"),
            ("one", "q", "pocket", "3"),
            ("two", "q", "–", "–"),
        ]
        (pooled,) = by_setting(both, ["agent"], Selection(agents=["q"])).rows
        assert values_of(both, "store", agents=["other", "alone"]) == [("one",), ("two",)]  # an agent each
    assert (pooled.values, pooled.episodes, pooled.runs) == (("q",), 9, 5)
    assert pooled.origin.runs == ("high", "low")


async def test_n_is_what_an_agent_requested_and_model_who_proposed(store: Store) -> None:
    usual, chat = {"n_candidates": 4, "model": {"path": "pocket"}}, {"chat": {"model": "gpt-4.1"}}
    for run, config, agents in (
        ("3", usual, {"v1.5": {"n": 3}}),
        ("8", usual | chat, {"v1.5": {"n": 8}}),  # three of these were distinct
        ("own", usual | {"proposer": "parts:mine"}, {"v1.5": {"n": 3}}),
        ("old", {}, {}),  # nothing is kept
    ):
        await store.begin_run(run, config, PROVENANCE, agents=agents)
        await record(store, "v1.5", task("a"), 0, 1, run=run)
    await record(store, "prompting", task("a"), 0, 1, run="old")
    assert values_of({"here": store}, "run", "agent", "N", "model") == [
        ("3", "v1.5", "3", "pocket"),
        ("8", "v1.5", "8", "gpt-4.1"),
        ("old", "prompting", "1", "–"),
        ("old", "v1.5", "–", "–"),
        ("own", "v1.5", "3", "parts:mine"),
    ]


async def test_what_no_run_knows_is_refused(settings: Store) -> None:
    for key, selection, words in (
        ("tau", Selection(), r"no run has a setting 'tau'"),
        ("agent", Selection(baseline="low"), "no row 'low' to compare with: there are other; q"),
        ("run", Selection(agents=["nobody"]), "no episode is finished with a verdict"),
        ("run", Selection(runs=["high", "hihg"]), "no run 'hihg': there are eval, high"),
    ):
        with pytest.raises(DataError, match=words):
            by_setting({"here": settings}, [key], selection)


async def test_agents_and_q_functions_are_never_averaged_over(settings: Store) -> None:
    stores = {"here": settings}
    found = by_setting(stores, ["epsilon"])
    assert found.keys == ("epsilon", "agent")
    shown = [(*row.values, row.rate.value, row.episodes) for row in found.rows]
    assert shown[:2] == [("0.5", "other", 0.0, 1), ("0.5", "q", 1.0, 4)]
    assert shown[2:] == [("0.1", "other", 0.0, 1), ("0.1", "q", 0.5, 4)]
    assert success_table(found).heads[:3] == ("epsilon", "agent", "success %")
    for run, name, outcome in (("low", FIRST, "success"), ("low", SECOND, "failure"), ("high", FIRST, "success")):
        repeat = len(settings.summaries(run=run, agent="learned"))
        await record(settings, "learned", task("a"), repeat, scored_by(name), outcome, run=run)  # type: ignore[arg-type]
    found = by_setting(stores, ["agent"], Selection(agents=["learned"]))
    shown = [(*row.values, row.rate.value, row.episodes) for row in found.rows]
    assert shown == [("learned @3fa2c1", 1.0, 2), ("learned @3fa2c9", 0.0, 1)]
    (cells, _) = csv.DictReader(success_table(found).to_csv().splitlines())
    assert cells["Q-function"] == FIRST
    apart = [("high", "learned"), ("low", "learned @3fa2c1"), ("low", "learned @3fa2c9")]
    assert values_of(stores, "run", agents=["learned"]) == apart  # the key was not requested, and is shown all the same
    await record(settings, "lone", task("a"), 0, scored_by(FIRST), run="low")
    await record(settings, "lone", task("b"), 0, 0, "failure", run="low")  # no step names its Q-function
    (row,) = by_setting(stores, ["agent"], Selection(agents=["lone"])).rows
    assert (row.values, row.episodes) == (("lone",), 2)


async def test_others_are_compared_with_prompting(settings: Store) -> None:
    await record(settings, "prompting", task("a"), 0, 1, run="low")
    for selection, baseline in (
        (Selection(), ("low", "prompting")),
        (Selection(agents=["q", "other"]), ("high", "q")),
        (Selection(agents=["q", "other"], baseline="low, q"), ("low", "q")),
    ):
        rows = by_setting({"here": settings}, ["run", "agent"], selection).rows
        assert [row.values for row in rows if row.difference is None] == [baseline]


def test_a_hash_is_shown_as_far_as_it_distinguishes_q_functions() -> None:
    assert suffixes([FIRST]) == {FIRST: ""}
    assert suffixes([FIRST, None]) == {FIRST: " @3fa2c1", None: " @none"}
    assert [*suffixes(["value-00000000aa", "value-00000000ab"]).values()] == [" @00000000aa", " @00000000ab"]
