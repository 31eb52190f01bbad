"""A search tree as a flat way: for each action its visits, Q̃, Q̂ and their blend (Agent Q, Eq. 10).

The way most taken stands one action below the other. What was tried instead is folded under the action, as a way of
its own; so are stretches on which nothing else was tried.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.tree import SearchTree
from bestofq.reports.stats import group_by
from bestofq.search.pairs import NodePair, blend_values, node_pairs
from bestofq.viewer.steps import FED, UNIT, Bar

STRETCH = 3  # as many consecutive actions without alternatives are folded
TONES = 10  # colours from Q 0 to Q 1


@dataclass(frozen=True, kw_only=True)
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


Way = Sequence[Sequence[Node]]
"""Actions one after the other, in stretches: one action, or `STRETCH` and more that are folded."""


@dataclass(frozen=True, kw_only=True)
class TreeBranches:
    """What there is to draw of a tree."""

    way: Way  # most taken; empty where nothing was proposed
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
    """The way most taken with its alternatives, and the pairs."""
    pairs = list(node_pairs(tree, alpha=alpha, threshold=threshold))
    sides: dict[int, list[NodePair]] = defaultdict(list)
    for pair in pairs:
        sides[pair.chosen].append(pair)
        sides[pair.rejected].append(pair)
    by_worth = sorted(range(len(tree)), key=lambda node: (-tree.visits[node], -blend_values(tree, node, alpha), node))
    children = group_by((node for node in by_worth if node), lambda node: tree.parent[node])

    def way_from(first: int, follow: Sequence[int] = ()) -> Way:
        """From an action on: along `follow`, then by worth. `first`'s own others stand elsewhere."""
        nodes, here = [node(first, ())], first
        while below := children.get(here):
            here = next((child for child in below if child in follow), below[0])
            nodes.append(node(here, [child for child in below if child != here]))
        return _stretches(nodes)

    def node(number: int, others: Sequence[int]) -> Node:
        most = max(tree.visits[other] for other in children[tree.parent[number]])
        return Node(
            number=number,
            bars=_bars(tree, number, alpha, most),
            q=blend_values(tree, number, alpha) if tree.visits[number] else None,
            pairs=sides[number],
            others=[way_from(other) for other in others],
        )

    top = children.get(0, [])
    main = most_taken(tree)
    way = way_from(first := next((c for c in top if c in main), top[0]), main) if top else []
    if top:
        way = [[node(first, [child for child in top if child != first])], *_stretches([n for s in way for n in s][1:])]
    return TreeBranches(
        way=way,
        tried=sum(1 for visits in tree.visits[1:] if visits),
        deepest=max(tree.depth) - tree.depth[0],
        pairs=len(pairs),
    )


def _stretches(nodes: Sequence[Node]) -> Way:
    """Each action by itself, but `STRETCH` or more without alternatives together; the last one stays open."""
    found: list[list[Node]] = []
    for node in nodes:
        plain = not node.others and not node.pairs and node is not nodes[-1]
        if plain and found and not found[-1][-1].others and not found[-1][-1].pairs:
            found[-1].append(node)
        else:
            found.append([node])
    return [part for some in found for part in ([some] if len(some) >= STRETCH else [[node] for node in some])]


def _bars(tree: SearchTree, node: int, alpha: float, siblings: int) -> tuple[Bar, ...]:
    tried = tree.visits[node] > 0
    return (
        Bar.visits(tree.visits[node], siblings, "N"),
        Bar.of("Q̃", tree.value[node] if tried else None, UNIT, "mean outcome of the rollouts through it (Eq. 8)"),
        Bar.of("Q̂", tree.prior[node], UNIT, FED),
        Bar.of(
            "Q", blend_values(tree, node, alpha) if tried else None, UNIT, f"{alpha:g} · Q̃ + {1 - alpha:g} · Q̂ (Eq. 10)"
        ),
    )
