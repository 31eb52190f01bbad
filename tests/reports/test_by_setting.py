import csv
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.decision import Step
from bestofq.core.errors import DataError, InputError
from bestofq.reports.by_setting import by_setting, setting_table
from bestofq.reports.figures import bars_svg
from bestofq.reports.rows import Selection, suffixes
from bestofq.reports.stats import Measure
from bestofq.store.store import Store

FIRST, SECOND = "value-3fa2c1aaaaaaaaaa", "value-3fa2c9bbbbbbbbbb"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Two runs that differ in epsilon; task a is solved in both, b only with 0.5."""
    with Store.open(tmp_path / "store") as store:
        for run, epsilon in (("low", 0.1), ("high", 0.5)):
            made = PROVENANCE.model_copy(update={"command": f"bestofq collect --run {run}"})
            await store.begin_run(run, {"epsilon": epsilon, "model": {"path": "pocket"}}, made)
            for repeat in (0, 1):
                await record(store, "q", task("a"), repeat, 4, run=run)
                await record(store, "q", task("b"), repeat, 6, "success" if run == "high" else "failure", run=run)
            await record(store, "other", task("a"), 0, 2, "failure", run=run)
        yield store


async def test_runs_are_grouped_by_a_setting_and_compared_with_the_first(store: Store) -> None:
    rows = by_setting({"here": store}, ["epsilon"], Selection(agents=["q"]))
    assert [(row.values, row.success.mean, row.tasks, row.episodes) for row in rows] == [
        (("0.5",), 1.0, 2, 4),
        (("0.1",), 0.5, 2, 4),
    ]
    assert rows[0].difference is None
    assert rows[1].difference is not None
    assert (rows[1].difference.mean, rows[1].difference.low, rows[1].difference.high) == (-0.5, -1.0, 0.0)
    assert rows[1].origin.commands == ("bestofq collect --run low",)
    table = setting_table(rows)
    assert table.name == "by-epsilon"
    assert table.texts()[1] == (
        "0.1",
        "50.0 [0.0, 100.0]",
        "0.0",
        "4.0",
        "0.0",
        "-50.0 [-100.0, +0.0]",
        "2",
        "4",
    )  # one task


async def test_several_keys_and_stores_make_one_row_each(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "second") as second:
        await second.begin_run("low", {"epsilon": 0.1}, PROVENANCE)
        await record(second, "q", task("a"), 0, 1, run="low")
        rows = by_setting({"one": store, "two": second}, ["store", "agent", "model.path", "N"], Selection(runs=["low"]))
        assert [row.values for row in rows] == [
            ("one", "other", "pocket", "3"),
            ("one", "q", "pocket", "3"),
            ("two", "q", "–", "3"),
        ]
        pooled = by_setting({"one": store, "two": second}, ["agent"], Selection(agents=["q"]))
    assert [(row.values, row.episodes, row.success.runs) for row in pooled] == [(("q",), 9, 5)]
    assert pooled[0].origin.runs == ("high", "low")


async def test_n_is_what_an_agent_asked_for_and_model_who_proposed(tmp_path: Path) -> None:
    usual, chat = {"n_candidates": 4, "model": {"path": "pocket"}}, {"chat": {"model": "gpt-4.1"}}
    alone = decision().model_copy(update={"candidates": decision().candidates[:1], "scores": (0.0,), "chosen": 0})
    with Store.open(tmp_path / "store") as store:
        for run, config, agents in (
            ("3", usual, {"v1.5": {"n": 3}}),
            ("8", usual | chat, {"v1.5": {"n": 8}}),  # of which three were distinct
            ("old", usual, {}),
            ("older", {"n_candidates": 2}, {}),  # with an --n that was not kept
        ):
            await store.begin_run(run, config, PROVENANCE, agents=agents)
            await record(store, "v1.5", task("a"), 0, 1, run=run)
        await record(store, "prompting", task("a"), 0, [Step(index=0, observation=page(0), decision=alone)], run="old")
        rows = by_setting({"here": store}, ["run", "agent", "N", "model"])
    assert [row.values for row in rows] == [
        ("3", "v1.5", "3", "pocket"),
        ("8", "v1.5", "8", "gpt-4.1"),
        ("old", "prompting", "1", "pocket"),
        ("old", "v1.5", "4", "pocket"),
        ("older", "v1.5", "3", "–"),
    ]


async def test_what_no_run_knows_is_refused_in_words(store: Store) -> None:
    with pytest.raises(DataError, match=r"no run has a setting 'tau': there are .*, N, epsilon, model.path"):
        by_setting({"here": store}, ["tau"])
    rows = by_setting({"here": store}, ["run", "agent"], Selection(baseline="low, q"))
    assert [row.difference is None for row in rows if row.values[1] == "q"] == [False, True]
    with pytest.raises(DataError, match="no row 'q' to compare with: there are high, other; high, q"):
        by_setting({"here": store}, ["run", "agent"], Selection(baseline="q"))
    with pytest.raises(DataError, match="no episode is finished with a verdict"):
        by_setting({"here": store}, ["run"], Selection(agents=["nobody"]))
    with pytest.raises(DataError, match="no run 'hihg': there are high"):
        by_setting({"here": store}, ["run"], Selection(runs=["high", "hihg"]))


async def test_agents_are_never_averaged_over(store: Store, tmp_path: Path) -> None:
    rows = by_setting({"here": store}, ["epsilon"])
    assert [(row.keys, row.values, row.success.mean, row.episodes) for row in rows] == [
        (("epsilon", "agent"), ("0.5", "other"), 0.0, 1),
        (("epsilon", "agent"), ("0.5", "q"), 1.0, 4),
        (("epsilon", "agent"), ("0.1", "other"), 0.0, 1),
        (("epsilon", "agent"), ("0.1", "q"), 0.5, 4),
    ]
    assert setting_table(rows).heads[:3] == ("epsilon", "agent", "success %")
    assert [row.values for row in by_setting({"here": store}, ["epsilon"], Selection(agents=["q"]))] == [
        ("0.5",),
        ("0.1",),
    ]
    with Store.open(tmp_path / "second") as second:  # a store an approach, each with an agent of its own
        await second.begin_run("r", {"epsilon": 0.1}, PROVENANCE)
        await record(second, "alone", task("a"), 0, 1, run="r")
        alone = by_setting({"one": store, "two": second}, ["store"], Selection(agents=["q", "alone"]))
    assert [(row.keys, row.values) for row in alone] == [(("store",), ("one",)), (("store",), ("two",))]


async def test_q_functions_are_never_averaged_over(store: Store) -> None:
    for run, name, outcome in (("low", FIRST, "success"), ("low", SECOND, "failure"), ("high", FIRST, "success")):
        taken = decision().model_copy(update={"checkpoint": name})
        step = Step(index=0, observation=page(0), decision=taken)
        repeat = len(store.summaries(run=run, agent="learned"))
        await record(store, "learned", task("a"), repeat, [step], outcome, run=run)  # type: ignore[arg-type]
    rows = by_setting({"here": store}, ["agent"], Selection(agents=["learned"]))
    assert [(row.values, row.success.mean, row.episodes) for row in rows] == [
        (("learned @3fa2c1",), 1.0, 2),
        (("learned @3fa2c9",), 0.0, 1),
    ]
    assert rows[0].origin.checkpoints == (FIRST,)
    (cells, _) = csv.DictReader(setting_table(rows).to_csv().splitlines())
    assert cells["Q-function"] == FIRST
    apart = by_setting({"here": store}, ["run"], Selection(agents=["learned"]))  # not asked for, and named all the same
    assert [row.values for row in apart] == [
        ("high", "learned"),
        ("low", "learned @3fa2c1"),
        ("low", "learned @3fa2c9"),
    ]


async def test_an_episode_without_a_step_is_of_its_agent_s_only_q_function(store: Store) -> None:
    step = Step(index=0, observation=page(0), decision=decision().model_copy(update={"checkpoint": FIRST}))
    await record(store, "learned", task("a"), 0, [step], run="low")
    await record(store, "learned", task("b"), 0, 0, "failure", run="low")
    (row,) = by_setting({"here": store}, ["agent"], Selection(agents=["learned"]))
    assert (row.values, row.episodes) == (("learned",), 2)


def test_a_hash_is_shown_as_far_as_it_tells_q_functions_apart() -> None:
    assert suffixes([FIRST]) == {FIRST: ""}
    assert suffixes([FIRST, None]) == {FIRST: " @3fa2c1", None: " @none"}
    assert suffixes(["value-00000000aa", "value-00000000ab"]) == {
        "value-00000000aa": " @00000000aa",
        "value-00000000ab": " @00000000ab",
    }


async def test_others_are_compared_with_prompting(store: Store) -> None:
    await record(store, "prompting", task("a"), 0, 1, run="low")
    rows = by_setting({"here": store}, ["run", "agent"])
    assert [row.values for row in rows if row.difference is None] == [("low", "prompting")]
    pooled = by_setting({"here": store}, ["run", "agent"], Selection(agents=["q", "other"]))
    assert [row.values for row in pooled if row.difference is None] == [("high", "q")]


def test_bars_have_their_intervals_and_references() -> None:
    rows = [("a", Measure(value=0.25)), ("b", Measure(value=0.5)), ("none", Measure(value=None))]
    root = ElementTree.fromstring(bars_svg(rows, title="Approaches", references=[("human", 0.5)]))

    def of_class(name: str) -> list[ElementTree.Element]:
        return [node for node in root.iter() if name in node.get("class", "").split()]

    short, tall = (float(node.get("width", "")) for node in of_class("bar"))
    assert tall == 2 * short
    (line,) = of_class("base")
    assert float(line.get("x1", "")) == pytest.approx(190 + tall)
    assert [node.text for node in of_class("baseline-text")] == ["human 50.0 %"]
    with pytest.raises(InputError, match="nothing to draw"):
        bars_svg([("none", Measure(value=None))], title="Approaches")
