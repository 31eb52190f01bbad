"""The search runs of a store: what was searched, what it brought, what it took (Agent Q, Algorithm 1)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain

import numpy as np

from bestofq.core.frozen import FrozenModel
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Usage, merge_usage
from bestofq.reports import stats
from bestofq.reports.stats import Doubles, Measure
from bestofq.reports.table import RowSource, Table, columns
from bestofq.search.pairs import node_pairs
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary


class SearchRow(FrozenModel):
    """One run's searches, or all trees of one call."""

    run: str
    trees: int
    rollouts: int
    nodes: int
    solved: Measure  # share of trees with a rollout of full reward
    outcome: Measure  # mean of the rollouts', in [0, 1]
    pairs: int
    usage: tuple[Usage, ...] = ()  # of all proposals and feedback, by role


def search_row(run: str, trees: Iterable[SearchTree], *, alpha: float, threshold: float) -> SearchRow:
    """Sums over trees; pairs as Algorithm 1 draws them at this α and threshold. Intervals over tasks."""
    by_task: dict[Hashable, Doubles] = defaultdict(lambda: np.zeros(6))
    usage: list[Usage] = []
    for tree in trees:
        drawn = sum(1 for _ in node_pairs(tree, alpha=alpha, threshold=threshold))
        tried, mean = tree.visits[0], tree.value[0]
        by_task[tree.task.suite, tree.task.id] += (1, is_solved(tree), tried, mean * tried, len(tree), drawn)
        usage += tree.usage
    tasks = np.array([*by_task.values()]).reshape(-1, 6)  # [T, 6]
    number, _, rollouts, _, nodes, pairs = tasks.sum(axis=0).tolist()
    return SearchRow(
        run=run,
        trees=number,
        rollouts=rollouts,
        nodes=nodes,
        solved=stats.measure(tasks[:, [1, 0]], stats.quotient, span=stats.UNIT),
        outcome=stats.measure(tasks[:, [3, 2]], stats.quotient, span=stats.UNIT),
        pairs=pairs,
        usage=merge_usage(usage),
    )


def search_rows(store: Store, runs: Sequence[str], *, alpha: float, threshold: float) -> list[SearchRow]:
    rows = (search_row(run, store.trees.all(run), alpha=alpha, threshold=threshold) for run in runs)
    return [row for row in rows if row.trees]


def search_table(rows: Sequence[SearchRow], made: Mapping[str, RowSource] | None = None) -> Table:
    return Table.of(
        "searches",
        "Searches (Agent Q, Algorithm 1)",
        (
            *columns("run", "trees", "rollouts", "nodes", "solved in a rollout %"),
            *columns("mean outcome", digits=3),
            *columns("pairs", "proposals", "feedback", "unusable"),
        ),
        [
            (
                *(row.run, row.trees, row.rollouts, row.nodes, row.solved, row.outcome, row.pairs),
                *(sum(used.calls for used in row.usage if used.role == role) for role in ("proposer", "critic")),
                sum(used.unusable or 0 for used in row.usage),  # rankings that broke off
            )
            for row in rows
        ],
        "What a rollout reaches is no result: a search tries a task again and again. In brackets: 95 % bootstrap over "
        "tasks.",
        made=made,
    )


def telling_trees(
    store: Store, runs: Sequence[str], at_most: int, *, alpha: float, threshold: float
) -> list[TreeSummary]:
    """Those with the most pairs, the solved ones first."""

    def decisive(found: tuple[TreeSummary, SearchTree]) -> tuple[bool, int]:
        return is_solved(found[1]), sum(1 for _ in node_pairs(found[1], alpha=alpha, threshold=threshold))

    by_run = (zip(store.trees.summaries(run=run), store.trees.all(run), strict=True) for run in runs)
    return [summary for summary, _ in nlargest(at_most, chain.from_iterable(by_run), key=decisive)]


def is_solved(tree: SearchTree) -> bool:
    """Whether a rollout ended with full reward."""
    return any(reward >= 1 for reward in tree.reward)
