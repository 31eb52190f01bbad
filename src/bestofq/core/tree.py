"""A search tree over web pages: node 0 is the root, every other node is one action proposed at its parent."""

from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from bestofq.core.decision import Candidate
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation, Task
from bestofq.core.usage import Usage

Ending = Literal["open", "ended", "unsafe", "pruned"]
"""open: the episode continues there, or nobody has been there; ended: it ends there; unsafe: an irreversible action
that search does not carry out, valued by feedback alone; pruned: it could not be reached again, nothing was
proposed, or the judge could not tell how it ended."""


class SearchTree(FrozenModel):
    """M nodes, parents before children, as flat columns. A node counts the edge into it: Q(h, a) and N(h, a)
    (Agent Q, 5.1). A node without visits was proposed and never carried out."""

    model_config = ConfigDict(extra="ignore")  # trees of earlier versions say more

    task: Task
    parent: tuple[int, ...]  # [M], -1 at the root
    depth: tuple[int, ...]  # [M], 0 at the root
    visits: tuple[int, ...]  # [M] N(h_parent, a); at the root, of rollouts
    value: tuple[float, ...]  # [M] mean return of the rollouts through the node (Eq. 8)
    prior: tuple[float | None, ...]  # [M] Q̂ by feedback in [0, 1] (Eq. 10); None where the siblings were not ranked
    reward: tuple[float, ...]  # [M] the environment's, on getting there
    ending: tuple[Ending, ...]  # [M]
    expanded: tuple[bool, ...]  # [M] whether K actions were proposed there
    candidate: tuple[Candidate | None, ...]  # [M] the action that leads there; None at the root
    page: tuple[int, ...]  # [M] index of what is seen there in `pages`; -1 where nobody has been
    pages: tuple[Observation, ...]
    usage: tuple[Usage, ...] = Field(default=(), description="of all proposals and feedback, by role")

    def __len__(self) -> int:
        return len(self.parent)

    def children(self, node: int) -> list[int]:
        """In the order they were proposed."""
        return [child for child, parent in enumerate(self.parent) if parent == node]

    def path(self, node: int) -> list[int]:
        """Root to node, both included."""
        return path_to(node, self.parent)


def path_to(node: int, parent: Sequence[int]) -> list[int]:
    """Root to node, both included, in a tree of these parents; the root's is -1."""
    path = [node]
    while (above := parent[path[-1]]) >= 0:
        path.append(above)
    return path[::-1]
