"""A search tree as flat arrays: node 0 is the root, every other node is one action taken at its parent."""

from dataclasses import dataclass

from bestofq.core.transitions import Floats, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchTree:
    """M nodes, parents before children. What is counted of a node is of the edge into it: Q(h, a), N(h, a) (Agent Q,
    5.1). A node with no visits was proposed, never carried out."""

    parent: Ints  # [M], -1 at the root
    rank: Ints  # [M] place among its siblings by feedback, 0 the best; -1 where they were not ranked
    visits: Ints  # [M] N(h_parent, a); at the root, of rollouts through it
    value: Floats  # [M] mean reward of the rollouts through the node
    prior: Floats  # [M] value by feedback in [0, 1] (Eq. 10's Q̂); 0 at the root
    reward: Floats  # [M] the environment's, on reaching the node
    depth: Ints  # [M] 0 at the root
    terminal: Ints  # [M] 0: goes on, 1: the episode ends there, 2: closed, it could not be reached again

    def __len__(self) -> int:
        return len(self.parent)
