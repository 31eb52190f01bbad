"""The tree while it grows: UCB1 and backup. Plain synchronous code over flat columns."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from bestofq.core.actions import Action, identity
from bestofq.core.decision import Candidate
from bestofq.core.observation import Observation, Task
from bestofq.core.tree import Ending, SearchTree, path_to
from bestofq.core.usage import Usage

_GROWN = ("parent", "depth", "candidate")  # columns of a tree that are known as soon as a node is
_NEW = {"visits": 0, "value": 0.0, "prior": None, "reward": 0.0, "ending": "open", "expanded": False}
"""And those that rollouts change, as they begin: all Q at 0 (Agent Q, 5.1.1)."""


class Move(NamedTuple):
    """An action, and the page that it was chosen on (None: not known, and then it is not carried out again)."""

    page: Observation | None
    action: Action


class MutableTree:
    """Columns as in `SearchTree`. `before`: moves up to the root."""

    def __init__(self, task: Task, root: Observation, *, before: Sequence[Move] = ()) -> None:
        self.task = task
        self.before = list(before)
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.visits: list[int] = []
        self.value: list[float] = []
        self.prior: list[float | None] = []
        self.reward: list[float] = []
        self.ending: list[Ending] = []
        self.expanded: list[bool] = []
        self.candidate: list[Candidate | None] = []
        self.seen: list[Observation | None] = []
        self.children: list[list[int]] = []
        self._add(-1, None, len(before))
        self.seen[0] = root

    def _add(self, parent: int, candidate: Candidate | None, depth: int) -> int:
        node = len(self.parent)
        row = {"parent": parent, "depth": depth, "candidate": candidate, **_NEW, "seen": None}
        for column, value in row.items():
            getattr(self, column).append(value)
        self.children.append([])
        if parent >= 0:
            self.children[parent].append(node)
        return node

    def child(self, parent: int, candidate: Candidate) -> int:
        """The node of an action at `parent`, added unless it is there."""
        node = self.find(parent, candidate.action)
        return self._add(parent, candidate, self.depth[parent] + 1) if node is None else node

    def find(self, parent: int, action: Action) -> int | None:
        same = identity(action)
        return next((n for n in self.children[parent] if identity(self.move(n).action) == same), None)

    def rank(self, nodes: Sequence[int], values: Sequence[float]) -> None:
        """Q̂ [K] of siblings."""
        for node, value in zip(nodes, values, strict=True):
            self.prior[node] = value

    def path(self, node: int) -> list[int]:
        return path_to(node, self.parent)

    def move(self, node: int) -> Move:
        candidate = self.candidate[node]
        assert candidate is not None
        return Move(self.seen[self.parent[node]], candidate.action)

    def moves(self, node: int) -> list[Move]:
        return [*self.before, *map(self.move, self.path(node)[1:])]

    def is_solved(self, node: int) -> bool:
        """Whether an episode with full reward ends at the node or below it."""
        won = (n for n, ending in enumerate(self.ending) if ending == "ended" and self.reward[n] >= 1)
        return any(node in self.path(n) for n in won)

    # ---- selection

    def ucb1(self, parent: int, exploration: float) -> list[float]:
        """Eq. 7 for each child: Q(h_t, a) + c_exp · sqrt(log N(h_t) / (1 + N(h_{t+1}))). N(h_t) is the sum of N(h_t, a)
        over the children, and N(h_{t+1}) is N(h_t, a): the world is taken as deterministic. log 0 is taken as 0."""
        children = self.children[parent]
        log = math.log(max(1, sum(self.visits[node] for node in children)))
        return [self.value[node] + exploration * math.sqrt(log / (1 + self.visits[node])) for node in children]

    def argmax_ucb1(self, parent: int, exploration: float) -> int | None:
        """The child of the highest UCB1; among equals the less visited, the higher Q̂, the first. None: all pruned."""
        scores = dict(zip(self.children[parent], self.ucb1(parent, exploration), strict=True))
        left = [node for node in self.children[parent] if self.ending[node] != "pruned"]
        return max(left, key=lambda node: (scores[node], *self._ties(node)), default=None)

    def find_best_new_child(self, parent: int) -> int | None:
        """The child of the highest Q̂ that no rollout has carried out."""
        untried = (n for n in self.children[parent] if self.ending[n] != "pruned" and not self.visits[n])
        return max(untried, key=self._ties, default=None)

    def _ties(self, node: int) -> tuple[float, float, int]:
        return -self.visits[node], self.prior[node] or 0.0, -node

    # ---- backup

    def backup(self, path: Sequence[int], outcome: float) -> None:
        """Eq. 8 along the path, from the leaf to the root: Q <- (Q · N + R) / (N + 1), N <- N + 1."""
        for node in reversed(path):
            count = self.visits[node]
            self.value[node] = (self.value[node] * count + outcome) / (count + 1)
            self.visits[node] = count + 1

    # ---- as it is stored

    def to_tree(self, usage: Sequence[Usage] = ()) -> SearchTree:
        pages: dict[Observation, int] = {}
        page = tuple(-1 if seen is None else pages.setdefault(seen, len(pages)) for seen in self.seen)
        return SearchTree(
            task=self.task,
            **{name: tuple(getattr(self, name)) for name in (*_GROWN, *_NEW)},
            page=page,
            pages=tuple(pages),
            usage=tuple(usage),
        )

    @classmethod
    def from_tree(cls, tree: SearchTree) -> "MutableTree":
        """Inverse of `to_tree` for a tree whose root is the start of an episode."""
        found = cls(tree.task, tree.pages[tree.page[0]])
        for node in range(1, len(tree)):
            found._add(tree.parent[node], tree.candidate[node], tree.depth[node])
        for name in _NEW:
            setattr(found, name, list(getattr(tree, name)))
        found.seen = [None if page < 0 else tree.pages[page] for page in tree.page]
        return found


def taken_to(node: int, tree: MutableTree | SearchTree) -> list[Candidate]:
    return [c for n in tree.path(node)[1:] if (c := tree.candidate[n]) is not None]
