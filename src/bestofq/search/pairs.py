"""Preference pairs from a search tree (Agent Q, 5.2 and Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from bestofq.core.tree import SearchTree


@dataclass(frozen=True, slots=True)
class NodePair:
    """Two children of `node`, both explored; `margin` is their difference in Q (Eq. 10)."""

    node: int
    chosen: int
    rejected: int
    margin: float


def blend_values(tree: SearchTree, node: int, alpha: float) -> float:
    """Eq. 10: α · Q̃ + (1 - α) · Q̂. Where the siblings were not ranked there is no Q̂, and Q̃ stands alone."""
    prior = tree.prior[node]
    return tree.value[node] if prior is None else alpha * tree.value[node] + (1 - alpha) * prior


def node_pairs(tree: SearchTree, *, alpha: float, threshold: float) -> Iterator[NodePair]:
    """Every two children of a node that were carried out and whose Q differ by the threshold or more, never equal ones.
    α = 1 leaves feedback out (6.2), and so does a child that was not ranked."""
    families: dict[int, list[int]] = {}
    for child in range(1, len(tree)):
        if tree.visits[child] and tree.ending[child] in ("open", "ended"):
            families.setdefault(tree.parent[child], []).append(child)
    for node, children in families.items():
        for pair in combinations(children, 2):
            weight = alpha if all(tree.prior[child] is not None for child in pair) else 1.0  # like with like
            worse, better = sorted(pair, key=lambda child: blend_values(tree, child, weight))
            margin = blend_values(tree, better, weight) - blend_values(tree, worse, weight)
            if margin > 0 and margin >= threshold:
                yield NodePair(node, better, worse, margin)


def rollouts(tree: SearchTree) -> Iterator[tuple[list[int], float]]:
    """The whole episodes in a tree (3.2.1, Eq. 6), each as its nodes after the root with the reward at its end."""
    for node in range(1, len(tree)):
        if tree.ending[node] == "ended" and tree.visits[node]:
            yield tree.path(node)[1:], tree.reward[node]
