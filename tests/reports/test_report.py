"""Every table and figure of some runs."""

import re
from math import inf, nan
from pathlib import Path

from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Outcome, Step
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Usage
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.searches import search_rows, search_table
from bestofq.reports.stats import Measure
from bestofq.store.store import Store
from experiments.learning_curve import dev_base, dev_curve


async def test_every_ratio_has_its_bounds(store: Store) -> None:
    for repeat in (0, 1):
        for name in "abcd":
            await record(store, "best-of-q", task(name), repeat, 2)
            await record(store, "prompting", task(name), repeat, 3, "failure" if name in "bd" else "success")
    found = gather(store, Selection(baseline="prompting"))
    tables = {table.name: table for table in found.tables}
    assert set(tables) >= {"agents", "reliability", "costs"}
    index = (Path(__file__).parents[2] / "docs" / "paper-index.md").read_text("utf-8")
    assert set(re.findall(r"`tables/([\w-]+)", index)) - {"domains"} <= set(tables)  # these tasks have no domain
    figures = {re.sub(r"-(AGENT|ID)$", "", name) for name in re.findall(r"`figures/([\w-]+)", index)}
    assert figures
    assert [name for name in figures if not any(figure.name.startswith(name) for figure in found.figures)] == []
    for table in (table for name, table in tables.items() if name != "costs"):  # sums, no estimates
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                bare = isinstance(cell, Measure) and cell.value is not None and cell.interval is None
                assert not bare, (table.name, column.name, row.cells)
                within_runs = column.name.startswith("±")
                assert not isinstance(cell, float) or within_runs, (table.name, column.name)


async def test_a_pass_without_a_verdict_ends_the_learning_curve(store: Store) -> None:
    """On open sites a judge may not have spoken yet."""
    passes: dict[str, Outcome] = {"seed": "success", "cycle-1": "success", "cycle-2": "unjudged"}
    for run, outcome in passes.items():
        await store.begin_run(run, {}, PROVENANCE)
        await record(store, "best-of-q", task("a"), 0, 1, outcome, run=run)
    await store.begin_run("dev-base", {}, PROVENANCE)
    await record(store, "prompting", task("a"), 0, 1, "unjudged", run="dev-base")
    (point,) = dev_curve(store)
    base = dev_base(store)
    assert (point.episodes, point.successes, point.success, base) == (1, 1, 1.0, None)
    await record(store, "prompting", task("b"), 0, 1, "failure", run="dev-base")
    assert dev_base(store) == ("prompting", 0.0)


async def test_an_agent_without_a_verdict_is_left_out_and_named(store: Store) -> None:
    for name in ("shop--a", "shop--b", "mugs--a"):
        await record(store, "prompting", task(name), 0, 2)
        await record(store, "best-of-q", task(name), 0, 2, "failure")
    await record(store, "picker", task("shop--a"), 0, 2, "unjudged")
    said = "Left out, none of their episodes has a verdict (`bestofq judge`): picker."
    for baseline, agents in (("prompting", ["prompting", "best-of-q"]), ("picker", ["prompting", "best-of-q"])):
        found = gather(store, Selection(baseline=baseline))
        tables = {table.name: table for table in found.tables}
        assert [row.cells[0] for row in tables["agents"].rows] == agents
        assert said in tables["agents"].notes


async def test_scores_that_are_no_numbers_spoil_no_report(store: Store) -> None:
    for name, odd in zip("abcde", (nan, inf, -inf, inf, -inf), strict=True):
        for agent in ("prompting", "best-of-q"):
            decided = [decision((odd, 0.5, 0.1), chosen=chosen, value=value) for chosen, value in ((1, odd), (0, 0.5))]
            steps = [Step(index=i, observation=page(i), decision=one) for i, one in enumerate(decided)]
            await record(store, agent, task(name), 0, steps, "success" if name == "a" else "failure")
    found = gather(store)
    assert "agents" in {table.name for table in found.tables}
    written = [figure.svg for figure in found.figures] + [table.to_markdown() for table in found.tables]
    assert len(written) > 4
    assert [text for text in written if re.search(r"\b(nan|inf)\b", text)] == []


async def test_searches_alone_are_a_report_too(store: Store) -> None:
    await store.begin_run("search", {}, PROVENANCE)
    failed, solved = search_tree("failed", 0.0), search_tree("solved", 1.0)
    for tree in (failed, solved):
        await store.trees.save("search", tree)
    found = gather(store, alpha=0.85)
    await store.begin_run("eval", {}, PROVENANCE)
    await record(store, "prompting", task("a"), 0, 1)
    both = gather(store)
    (row,) = search_rows(store, ["eval", "search"], alpha=0.5, threshold=0.2)
    assert [table.name for table in found.tables] == ["searches"]
    assert [tree.task for tree in found.trees] == ["solved", "failed"]
    assert {"agents", "searches"} <= {table.name for table in both.tables}
    assert {*both.made} == {"prompting", "searches of search"}
    assert (row.trees, row.rollouts, row.nodes, row.solved.value, row.pairs) == (2, 4, 6, 0.5, 1)
    (texts,) = search_table([row]).texts()
    assert texts[:6] == ("search", "2", "4", "6", "50.0 [0.0, 100.0]", "0.250 [0.000, 0.500]")


def search_tree(name: str, reward: float) -> SearchTree:
    """Two actions, each tried once; the first brings the reward."""
    candidates = (Candidate(action=Click(mark=mark), label=f"link {mark}") for mark in (1, 2))
    return SearchTree(
        task=task(name),
        parent=(-1, 0, 0),
        depth=(0, 1, 1),
        visits=(2, 1, 1),
        value=(reward / 2, reward, 0.0),
        prior=(None, 0.5, 0.5),
        reward=(0.0, reward, 0.0),
        ending=("open", "ended", "ended"),
        expanded=(True,) * 3,
        candidate=(None, *candidates),
        page=(0, -1, -1),
        pages=(page(0),),
        usage=(Usage(role="proposer", calls=7), Usage(role="critic", calls=3)),
    )
