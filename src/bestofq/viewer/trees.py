"""A search tree as a flat way: for each action its visits, Q̃, Q̂ and their blend (Agent Q, Eq. 10).

The way most taken stands one action below the other. What was tried instead is a way of its own, folded under it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bestofq.core.tree import SearchTree
from bestofq.reports.stats import group_by
from bestofq.search.pairs import NodePair, blend_values, node_pairs
from bestofq.viewer.steps import FED, UNIT, Bar

TONES = 10  # colours from Q 0 to Q 1


@dataclass(frozen=True)
class Node:
    """How an action of the tree is drawn."""

    number: int
    bars: tuple[Bar, ...]
    q: float | None  # blended; None: not carried out
    pairs: Sequence[NodePair]  # that it is one side of (Agent Q, Algorithm 1)
    others: Sequence["Way"]  # tried, or proposed, in its place: by visits, then blended Q

    @property
    def tone(self) -> int:
        """0 to `TONES` by Q; -1 where it was not carried out."""
        return -1 if self.q is None else round(TONES * min(1.0, max(0.0, self.q)))


Way = Sequence[Node]  # actions one after the other


class TreeBranches(NamedTuple):
    """What there is to draw of a tree."""

    way: Way  # most taken; empty if nothing was proposed
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


def branches(tree: SearchTree, *, alpha: float, threshold: float) -> TreeBranches:
    pairs = list(node_pairs(tree, alpha=alpha, threshold=threshold))
    blended = [blend_values(tree, node, alpha) for node in range(len(tree))]
    by_worth = sorted(range(1, len(tree)), key=lambda node: (-tree.visits[node], -blended[node], node))
    children = group_by(by_worth, lambda node: tree.parent[node])
    blend = f"{alpha:g} · Q̃ + {1 - alpha:g} · Q̂ (Eq. 10)"

    def way_from(siblings: Sequence[int], follow: Sequence[int] = ()) -> Way:
        nodes = []
        while siblings:
            here = next((node for node in siblings if node in follow), siblings[0])
            nodes.append(node_of(here, [node for node in siblings if node != here]))
            siblings = children.get(here, ())
        return nodes

    def node_of(number: int, others: Sequence[int]) -> Node:
        visits = tree.visits[number]
        value, q = (tree.value[number], blended[number]) if visits else (None, None)
        bars = (
            Bar.visits(visits, max(tree.visits[other] for other in children[tree.parent[number]]), "N"),
            Bar.of("Q̃", value, UNIT, "mean outcome of the rollouts through it (Eq. 8)"),
            Bar.of("Q̂", tree.prior[number], UNIT, FED),
            Bar.of("Q", q, UNIT, blend),
        )
        own = [pair for pair in pairs if number in (pair.chosen, pair.rejected)]
        return Node(number, bars, q, own, [way_from([other]) for other in others])

    return TreeBranches(
        way=way_from(children.get(0, ()), most_taken(tree)),
        tried=sum(1 for visits in tree.visits[1:] if visits),
        deepest=max(tree.depth) - tree.depth[0],
        pairs=len(pairs),
    )
