"""A search tree as nested lists: for each action its visits, Q̃, Q̂ and their blend (Agent Q, Eq. 10)."""

from dataclasses import dataclass

from bestofq.core.decision import Candidate
from bestofq.core.observation import Observation
from bestofq.core.tree import Ending, SearchTree
from bestofq.search.pairs import blended
from bestofq.viewer.steps import FED, UNIT, Bar


@dataclass(frozen=True, kw_only=True)
class Node:
    """An action that was proposed, and what search found below it."""

    number: int
    candidate: Candidate
    visits: int
    bars: tuple[Bar, ...]
    reward: float
    ending: Ending
    page: Observation | None
    on_way: bool
    open: bool
    children: tuple["Node", ...]


@dataclass(frozen=True, kw_only=True)
class Branches:
    """What there is to draw of a tree; `way` is the path most taken, root to leaf."""

    children: tuple[Node, ...]
    way: tuple[int, ...]
    tried: int
    deepest: int


def most_taken(tree: SearchTree) -> list[int]:
    """From the root on the child of most visits, of equal ones the one of higher Q̃, as far as search went."""
    way = [0]
    while tried := [child for child in tree.children(way[-1]) if tree.visits[child]]:
        way.append(max(tried, key=lambda child: (tree.visits[child], tree.value[child])))
    return way


def branches(tree: SearchTree, *, alpha: float, unfolded: int = 1) -> Branches:
    """Children by visits, then by blended Q; unfolded along the way most taken, and down to a depth."""
    children: dict[int, list[int]] = {}
    for child, parent in enumerate(tree.parent):
        children.setdefault(parent, []).append(child)
    way = most_taken(tree)

    def worth(node: int) -> tuple[float, float, int]:
        return tree.visits[node], blended(tree, node, alpha), -node

    made: dict[int, Node] = {}
    for number in range(len(tree) - 1, 0, -1):  # children stand behind their parents
        candidate = tree.candidate[number]
        assert candidate is not None  # only the root has none
        below = sorted(children.get(number, ()), key=worth, reverse=True)
        siblings = max(tree.visits[other] for other in children[tree.parent[number]])
        made[number] = Node(
            number=number,
            candidate=candidate,
            visits=tree.visits[number],
            bars=_bars(tree, number, alpha, siblings),
            reward=tree.reward[number],
            ending=tree.ending[number],
            page=None if tree.page[number] < 0 else tree.pages[tree.page[number]],
            on_way=number in way,
            open=number in way or tree.depth[number] - tree.depth[0] < unfolded,
            children=tuple(made[child] for child in below),
        )
    return Branches(
        children=tuple(made[child] for child in sorted(children.get(0, ()), key=worth, reverse=True)),
        way=tuple(way),
        tried=sum(1 for visits in tree.visits[1:] if visits),
        deepest=max(tree.depth) - tree.depth[0],
    )


def _bars(tree: SearchTree, node: int, alpha: float, siblings: int) -> tuple[Bar, ...]:
    visits = tree.visits[node]
    tried = visits > 0
    return (
        Bar(name="N", words=str(visits), share=visits / max(1, siblings), about="rollouts through it"),
        Bar.of("Q̃", tree.value[node] if tried else None, UNIT, "mean outcome of the rollouts through it (Eq. 8)"),
        Bar.of("Q̂", tree.prior[node], UNIT, FED),
        Bar.of("Q", blended(tree, node, alpha) if tried else None, UNIT, f"{alpha:g} · Q̃ + {1 - alpha:g} · Q̂ (Eq. 10)"),
    )
