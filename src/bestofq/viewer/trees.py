"""A search tree as nested lists: for each action its visits, Q̃, Q̂ and their blend (Agent Q, Eq. 10)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.tree import SearchTree
from bestofq.reports.stats import grouped
from bestofq.search.pairs import NodePair, blended, node_pairs
from bestofq.viewer.steps import FED, UNIT, Bar

UNFOLDED = 1  # levels below the root, beside the way most taken


@dataclass(frozen=True, kw_only=True)
class Node:
    """How an action of the tree is drawn."""

    number: int
    bars: tuple[Bar, ...]
    on_way: bool
    open: bool
    pairs: Sequence[NodePair]  # that it is one side of (Agent Q, Algorithm 1)
    children: Sequence["Node"]


@dataclass(frozen=True, kw_only=True)
class Branches:
    """What there is to draw of a tree."""

    children: Sequence[Node]
    tried: int
    deepest: int
    pairs: int


def most_taken(tree: SearchTree) -> list[int]:
    """From the root by most visits, then higher Q̃; among what leads to full reward, if any does."""
    won = [n for n in range(1, len(tree)) if tree.ending[n] == "ended" and tree.reward[n] >= 1 and tree.visits[n]]
    leading = {node for n in won for node in tree.path(n)}
    way = [0]
    while tried := [c for c in tree.children(way[-1]) if tree.visits[c] and (not won or c in leading)]:
        way.append(max(tried, key=lambda child: (tree.visits[child], tree.value[child])))
    return way


def branches(tree: SearchTree, *, alpha: float, threshold: float) -> Branches:
    """Children by visits, then blended Q, with the pairs; unfolded along the way most taken and to a depth."""
    pairs = list(node_pairs(tree, alpha=alpha, threshold=threshold))
    sides: dict[int, list[NodePair]] = defaultdict(list)
    for pair in pairs:
        sides[pair.chosen].append(pair)
        sides[pair.rejected].append(pair)
    by_worth = sorted(range(len(tree)), key=lambda node: (-tree.visits[node], -blended(tree, node, alpha), node))
    children, way = grouped(by_worth, lambda node: tree.parent[node]), most_taken(tree)
    made: dict[int, Node] = {}
    for number in range(len(tree) - 1, 0, -1):  # children stand behind their parents
        made[number] = Node(
            number=number,
            bars=_bars(tree, number, alpha, max(tree.visits[other] for other in children[tree.parent[number]])),
            on_way=number in way,
            open=number in way or tree.depth[number] - tree.depth[0] < UNFOLDED,
            pairs=sides[number],
            children=[made[child] for child in children.get(number, ())],
        )
    return Branches(
        children=[made[child] for child in children.get(0, ())],
        tried=sum(1 for visits in tree.visits[1:] if visits),
        deepest=max(tree.depth) - tree.depth[0],
        pairs=len(pairs),
    )


def _bars(tree: SearchTree, node: int, alpha: float, siblings: int) -> tuple[Bar, ...]:
    tried = tree.visits[node] > 0
    return (
        Bar.visits(tree.visits[node], siblings, "N"),
        Bar.of("Q̃", tree.value[node] if tried else None, UNIT, "mean outcome of the rollouts through it (Eq. 8)"),
        Bar.of("Q̂", tree.prior[node], UNIT, FED),
        Bar.of("Q", blended(tree, node, alpha) if tried else None, UNIT, f"{alpha:g} · Q̃ + {1 - alpha:g} · Q̂ (Eq. 10)"),
    )
