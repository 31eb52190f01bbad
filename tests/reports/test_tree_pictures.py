"""Search trees as pictures, and search runs in the report."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, page, record, task

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Usage
from bestofq.core.tree import Ending, SearchTree
from bestofq.reports.diagnosis import Options
from bestofq.reports.folder import write_folder
from bestofq.reports.html import write_report
from bestofq.reports.report import gather
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.tree_rows import rows, way_taken
from bestofq.reports.trees import search_tree_svg
from bestofq.search.pairs import node_pairs
from bestofq.store.store import Store

HOSTILE = '</text><script>alert(1)</script>"&'


def tree_of(
    *nodes: tuple[int, int, float, float | None, Ending, float], name: str = "a", words: str = "door"
) -> SearchTree:
    """Nodes after the root as (parent, N, Q̃, Q̂, ending, reward)."""
    parents = [-1, *(node[0] for node in nodes)]
    depth = [0]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    first = [node for node in nodes if node[0] == 0]
    visits = sum(node[1] for node in first)
    value = sum(node[1] * node[2] for node in first) / max(1, visits)
    candidates = (
        Candidate(action=Click(mark=1), label=f"{words} {number}", thought=f"try {number}")
        for number in range(1, len(parents))
    )
    return SearchTree(
        task=task(name),
        parent=tuple(parents),
        depth=tuple(depth),
        visits=(visits, *(node[1] for node in nodes)),
        value=(value, *(node[2] for node in nodes)),
        prior=(None, *(node[3] for node in nodes)),
        reward=(0.0, *(node[5] for node in nodes)),
        ending=("open", *(node[4] for node in nodes)),
        expanded=(True,) * len(parents),
        candidate=(None, *candidates),
        page=(0,) + (-1,) * len(nodes),
        pages=(page(0),),
        usage=(Usage(role="proposer", calls=7), Usage(role="critic", calls=3)),
    )


SMALL = tree_of(
    (0, 3, 2 / 3, 1.0, "open", 0.0),  # 1
    (0, 1, 0.0, 0.5, "open", 0.0),  # 2: leads straight to a failure
    (0, 0, 0.0, 0.0, "open", 0.0),  # 3: never tried
    (1, 2, 1.0, 1.0, "ended", 1.0),  # 4
    (1, 0, 0.0, 0.0, "unsafe", 0.0),  # 5
    (2, 1, 0.0, None, "open", 0.0),  # 6
    (6, 1, 0.0, None, "ended", 0.0),  # 7
    (1, 1, 0.0, 0.5, "pruned", 0.0),  # 8
)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def of_class(svg: str, *names: str) -> list[ElementTree.Element]:
    return [n for n in ElementTree.fromstring(svg).iter() if set(names) <= set(n.get("class", "").split())]


def test_a_small_tree_row_by_row() -> None:
    assert way_taken(SMALL) == [0, 1, 4]
    assert [(row.kind, row.nodes, row.lane, row.above) for row in rows(SMALL)] == [
        ("node", (0,), 0, None),
        ("node", (2,), 1, 0),
        ("steps", (6, 7), 1, 1),
        ("untried", (3,), 1, 0),
        ("node", (1,), 0, 0),
        ("node", (5,), 1, 4),
        ("node", (8,), 1, 4),
        ("node", (4,), 0, 4),
    ]


def test_a_picture_says_visits_both_values_their_blend_and_how_branches_end() -> None:
    svg = search_tree_svg(SMALL, alpha=0.25, threshold=0.1)
    said = texts(svg)
    start = said.index("door 1")
    assert said[start + 1 : start + 5] == ["3", "0.67", "1.00", "0.92"]  # N, Q̃, Q̂, 0.25 · 0.67 + 0.75 · 1
    assert "0.25 Q̃ + 0.75 Q̂" in said
    assert "2 steps: door 6 · door 7" in said
    assert "1 not tried: door 3" in said
    assert [said.count(ending) for ending in ("reward 1", "reward 0", "not carried out", "pruned")] == [1, 1, 1, 1]
    assert "the most visited way to a success" in said
    assert len(of_class(svg, "wash")) == 3  # root, 1 and 4
    assert len(of_class(svg, "edge", "way")) == 2 + 1  # and the legend's
    assert any("try 1" in (node.text or "") for node in ElementTree.fromstring(svg).iter() if "title" in node.tag)


def test_the_pairs_of_algorithm_1_are_marked_by_chosen_and_rejected_row() -> None:
    (pair,) = node_pairs(SMALL, alpha=0.5, threshold=0.2)
    assert (pair.chosen, pair.rejected) == (1, 2)
    svg = search_tree_svg(SMALL)
    (span,) = of_class(svg, "span")
    labels = {node.text: float(node.get("y", "")) for node in of_class(svg, "name") if node.text}
    assert float(span.get("y1", "")) == pytest.approx(labels["door 1"], abs=6)
    assert float(span.get("y2", "")) == pytest.approx(labels["door 2"], abs=6)
    assert f"−{pair.margin:.2f}" in texts(svg)
    assert of_class(search_tree_svg(SMALL, threshold=0.9), "span") == []


def test_where_nothing_succeeded_the_way_is_the_most_visited() -> None:
    tree = tree_of((0, 1, 0.0, None, "ended", 0.0), (0, 2, 0.0, None, "open", 0.0), (2, 2, 0.0, None, "ended", 0.0))
    assert way_taken(tree) == [0, 2, 3]
    assert "the way most visited" in texts(search_tree_svg(tree))


def test_a_tree_nobody_searched_is_its_start() -> None:
    assert [row.nodes for row in rows(tree_of())] == [(0,)]
    assert "start: Kettle shop" in texts(search_tree_svg(tree_of()))


def test_large_trees_are_folded_and_say_so() -> None:
    nodes: list[tuple[int, int, float, float | None, Ending, float]] = []

    def grow(parent: int, depth: int) -> int:
        """A full binary tree; the visits below."""
        if depth == 0:
            return 1
        count = 0
        for _ in range(2):
            number = len(nodes) + 1
            nodes.append((parent, 1, 0.0, None, "ended" if depth == 1 else "open", 0.0))
            visits = grow(number, depth - 1)
            nodes[number - 1] = (parent, visits, 0.0, None, *nodes[number - 1][4:])
            count += visits
        return count

    grow(0, 8)
    tree = tree_of(*nodes)
    drawn = rows(tree)
    assert len(tree) == 511
    assert len(drawn) <= 60
    kept = sum(len(row.nodes) + row.below for row in drawn)
    assert kept == len(tree)
    assert all(row.lane <= 8 for row in rows(tree, at_most=10_000))
    assert any("(+ " in said for said in texts(search_tree_svg(tree)))


def test_texts_of_pages_stay_texts_and_long_ones_are_cut_with_the_whole_in_the_tooltip() -> None:
    nodes: tuple[int, int, float, float | None, Ending, float] = (0, 1, 1.0, None, "ended", 1.0)
    svg = search_tree_svg(tree_of(nodes, words=HOSTILE))
    assert "<script" not in svg
    assert f"{HOSTILE} 1" in texts(svg)
    long = "many words " * 40
    svg = search_tree_svg(tree_of(nodes, words=long))
    assert max(map(len, texts(svg))) < 130
    titles = [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert any(f"{long} 1" in title for title in titles)


async def test_a_store_of_searches_alone_has_a_report_too(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("search", {}, PROVENANCE)
        await store.trees.save("search", SMALL)
        page = write_report(store, tmp_path / "report.html", title="T").read_text("utf-8")
    assert page.count('class="card tree"') == 1
    assert "<script" not in page


async def test_the_folder_holds_searches_as_a_table_and_trees_as_figures(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        searching = {"trees": {"candidates": 4}}
        await store.begin_run("search", {"model": {"path": "base"}}, PROVENANCE, searches=searching)
        await store.trees.save("search", SMALL)
        alone = gather(store, options=Options(alpha=0.85))
        index = write_folder(store, alone, tmp_path / "out", title="T").read_text("utf-8")
        await record(store, "prompting", task("a"), 0, 1, run="search")
        both = gather(store)
    (table,) = alone.tables
    assert table.texts() == (
        ("search", "1", "4", "9", "100.0 [2.5, 100.0]", "0.500 [0.013, 0.988]", "1", "7", "3", "0"),
    )
    made = table.rows[0].origin
    assert made is not None
    assert (made.runs, made.models, made.n) == (("search",), ("base",), 4)
    assert [figure.name for figure in alone.figures] == ["tree-search-a"]
    assert "0.85 Q̃ + 0.15 Q̂" in (tmp_path / "out" / "figures" / "tree-search-a.svg").read_text("utf-8")
    assert index.count('class="card tree"') == 1
    assert (tmp_path / "out" / "tables" / "searches.csv").is_file()
    assert {"agents", "searches"} <= {table.name for table in both.tables}
    assert {*both.made} == {"prompting", "searches of search"}


async def test_the_report_counts_search_runs_and_draws_the_most_telling_trees(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        for run in ("eval", "search"):
            await store.begin_run(run, {}, PROVENANCE)
        await record(store, "prompting", task("a"), 0, 1)
        alone = write_report(store, tmp_path / "without.html", title="T").read_text("utf-8")
        failed = tree_of((0, 1, 0.0, None, "ended", 0.0), name="failed", words=HOSTILE)
        for tree in (failed, SMALL.model_copy(update={"task": task("solved")})):
            await store.trees.save("search", tree)
        both = write_report(store, tmp_path / "report.html", title="T").read_text("utf-8")
        one = write_report(store, tmp_path / "one.html", options=Options(max_trees=1), title="T").read_text("utf-8")
        (row,) = search_rows(store, ["eval", "search"], alpha=0.5, threshold=0.2)
        told = telling_trees(store, ["search"], 1, alpha=0.5, threshold=0.2)
    assert "Searches" not in alone
    assert both.count('class="card tree"') == 2
    assert HOSTILE not in both
    (texts,) = search_table([row]).texts()
    assert texts == ("search", "2", "5", "11", "50.0 [0.0, 100.0]", "0.400 [0.000, 0.500]", "1", "14", "6", "0")
    assert [tree.task.id for _, tree in told] == ["solved"]
    assert one.count('class="card tree"') == 1
    assert "1 of 2 trees are drawn" in one
