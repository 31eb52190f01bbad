"""A search tree as rows under each other, the way a history of branches is drawn: the way taken runs straight down on
the left, every other branch one step to its right. Pure layout: which nodes get a row, and where.

Each branch goes straight on with its most visited action, so that what branches off it was visited half as often at
most: the width grows with the logarithm of the rollouts, whatever the depth.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bestofq.core.tree import SearchTree


@dataclass(frozen=True, slots=True)
class Row:
    """node: one action. steps: `nodes`, actions one after another without a choice, to the end or the next choice.
    untried: `nodes`, siblings that were proposed and never carried out. `below` counts what is folded under a node."""

    kind: Literal["node", "steps", "untried"]
    nodes: tuple[int, ...]
    lane: int  # 0: the way taken
    above: int | None  # index of the row that the line comes from
    below: int = 0

    @property
    def node(self) -> int:
        return self.nodes[0]


def way_taken(tree: SearchTree) -> list[int]:
    """Nodes from the root down by visits, of what leads to a success where any rollout succeeded."""
    won = [n for n in range(1, len(tree)) if tree.ending[n] == "ended" and tree.reward[n] >= 1 and tree.visits[n]]
    leading = {node for n in won for node in tree.path(n)}
    way, children = [0], _children(tree)
    while (onward := _heaviest(tree, [c for c in children[way[-1]] if not won or c in leading])) is not None:
        way.append(onward)
    return way


def rows(tree: SearchTree, *, marked: Collection[int] = (), at_most: int = 60) -> list[Row]:
    """The tree's rows, folded further and further until there are at most `at_most` of them, or nothing is left to
    fold. `marked` nodes are never folded into steps."""
    folder = _Folder(tree, frozenset(marked))
    won = tree.reward[way_taken(tree)[-1]] >= 1
    folds = [(lanes, whole) for whole in ((True, False) if won else (False,)) for lanes in (3, 2, 1)]
    for lanes, whole in folds:
        found = folder.rows(lanes, whole_way=whole)
        if len(found) <= at_most:
            break
    return found


def _children(tree: SearchTree) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(len(tree))]
    for node in range(1, len(tree)):
        children[tree.parent[node]].append(node)
    return children


def _heaviest(tree: SearchTree, nodes: Collection[int]) -> int | None:
    tried = [n for n in nodes if tree.visits[n]]
    return max(tried, key=lambda n: (tree.visits[n], tree.value[n], -n), default=None)


class _Folder:
    def __init__(self, tree: SearchTree, marked: frozenset[int]) -> None:
        self._tree = tree
        self._marked = marked
        self._children = _children(tree)
        self._next = dict(pairwise(way_taken(tree)))

    def rows(self, lanes: int, *, whole_way: bool) -> list[Row]:
        """With branches in at most so many lanes beside the way, which is folded too unless `whole_way`."""
        found: list[Row] = []
        self._lane(0, 0, None, lanes, whole_way, found)
        return found

    def _lane(self, first: int, lane: int, above: int | None, lanes: int, whole: bool, found: list[Row]) -> None:
        """The rows of `first` and of what follows it straight down, with the branches between."""
        if lane == lanes and self._children[first]:
            found.append(Row("node", (first,), lane, above, below=self._below(first)))
            return
        node: int | None = first
        while node is not None:
            steps = [node] if whole else list(self._without_choice(node))
            kind: Literal["node", "steps"] = "node" if len(steps) == 1 else "steps"
            found.append(Row(kind, tuple(steps), lane, above))
            here, node = len(found) - 1, steps[-1]
            above = here
            onward = self._next.get(node, _heaviest(self._tree, self._children[node]))
            others = [child for child in self._children[node] if child != onward]
            for child in (child for child in others if self._shown(child)):
                self._lane(child, lane + 1, here, lanes, False, found)
            if untried := [child for child in others if not self._shown(child)]:
                found.append(Row("untried", tuple(untried), lane + 1, here))
            node = onward

    def _shown(self, node: int) -> bool:
        """What was tried, and what must not be."""
        return self._tree.visits[node] > 0 or self._tree.ending[node] in ("unsafe", "pruned")

    def _without_choice(self, node: int) -> Iterator[int]:
        """The node, and those below it as long as each is the only child, and there is nothing to say of it."""
        yield node
        while self._plain(node) and self._tree.ending[node] == "open" and len(self._children[node]) == 1:
            node = self._children[node][0]
            if not self._plain(node):
                return
            yield node

    def _plain(self, node: int) -> bool:
        alone = node > 0 and len(self._children[self._tree.parent[node]]) == 1
        return alone and node not in self._marked and self._tree.ending[node] in ("open", "ended")

    def _below(self, node: int) -> int:
        count, waiting = 0, [node]
        while waiting:
            children = self._children[waiting.pop()]
            count += len(children)
            waiting += children
        return count
