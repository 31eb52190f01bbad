"""Search at inference as a scorer (Agent Q, 5.1 and 6.2): candidates are worth what rollouts through them brought."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bestofq.core.decision import Candidate, Proposal, Scores, State
from bestofq.core.errors import InfraError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import EnvFactory, Proposer
from bestofq.core.repeating import DivergedError, Unsafe, find_again, same_page
from bestofq.core.usage import attach_usage
from bestofq.search.backtracking import Backtracker
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.tree import Move, MutableTree


@dataclass
class TreeScorer:
    """Q̃ of each candidate after rollouts in environments of its own. An episode keeps its tree until it ends. A new
    tree begins if the agent's page differs from the tree's, or if an action would mean another element."""

    make_env: EnvFactory
    make_search: Callable[[MutableTree, State, Backtracker], Search]
    config: SearchConfig
    irreversible: Unsafe | None = None  # None: a sandbox, where nothing is
    _searches: dict[tuple[str, int], tuple[Search | None, list[Observation]]] = field(default_factory=dict)
    """By an episode's task and seed: its search, and the pages that it has been on."""

    async def resume(self, task: Task, seed: int, pages: Sequence[Observation]) -> None:
        """Begin a new tree on the page from which the episode continues."""
        await self.forget(task, seed)
        self._searches[task.id, seed] = None, [_bare(page) for page in pages]

    async def forget(self, task: Task, seed: int) -> None:
        await self._close((task.id, seed))

    async def _close(self, episode: tuple[str, int]) -> None:
        search, _ = self._searches.pop(episode, (None, []))
        if search is not None:
            with suppress(InfraError):  # what cut the episode may have been one of these
                await search.backtracker.aclose()

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] in [0, 1], 0 for what no rollout tried; between equal ones feedback decides. The value is the root's."""
        search, node = await self._search_at(state)
        tree = search.tree
        search.usage.clear()
        search.start = node
        if not search.enough(node):
            with attach_usage(search.usage):
                if not tree.expanded[node] or None in [tree.find(node, one.action) for one in candidates]:
                    await search.offer(node, state, candidates)
                await search.run(self.config.iterations - tree.visits[node])
        children = [tree.child(node, candidate) for candidate in candidates]
        values = tuple(tree.value[child] + 1e-6 * (tree.prior[child] or 0.0) for child in children)
        return Scores(
            values=values,
            state_value=tree.value[node],
            checkpoint=search.checkpoint,
            visits=tuple(tree.visits[child] for child in children),
            feedback=None if search.ranker is None else tuple(tree.prior[child] for child in children),
            usage=tuple(search.usage),
        )

    def found(self, state: State, n: int) -> tuple[Candidate, ...]:
        """The search's `n` best actions, by value and then visits, where the tree was expanded (5.1.1) or has a success
        below that is enough; elsewhere nothing."""
        search, _ = self._searches.get((state.task.id, state.seed), (None, []))
        node = None if search is None else _node_of(search, state)
        if search is None or node is None or not (search.tree.expanded[node] or search.enough(node)):
            return ()
        tree = search.tree
        held = [child for child in tree.children[node] if tree.ending[child] != "pruned"]
        held.sort(key=lambda child: (-tree.value[child], -tree.visits[child]))
        return tuple(c for child in held[:n] if (c := tree.candidate[child]) is not None)

    async def aclose(self) -> None:
        for episode in [*self._searches]:
            await self._close(episode)

    async def _search_at(self, state: State) -> tuple[Search, int]:
        key = state.task.id, state.seed
        search, seen = self._searches.pop(key, (None, []))
        pages = seen[: len(state.decisions)]
        node = None if search is None else _node_of(search, state)
        if search is None or node is None:
            if search is not None:
                await search.backtracker.aclose()
            search, node = self._begin(state, pages), 0
        self._searches[key] = search, [*pages, _bare(state.observation)]
        return search, node

    def _begin(self, state: State, pages: Sequence[Observation]) -> Search:
        known = pages if len(pages) == len(state.decisions) else [None] * len(state.decisions)
        before = [Move(page, of.candidate.action) for page, of in zip(known, state.decisions, strict=True)]
        tree = MutableTree(state.task, state.observation, before=before)
        backtracker = Backtracker(self.make_env, state.task, self.config, self.irreversible)
        return self.make_search(tree, state, backtracker)


@dataclass(frozen=True)
class FoundProposer:
    """Offers a search's actions, the best first; where it has none, asks another proposer, the model."""

    scorer: TreeScorer
    proposer: Proposer

    async def propose(self, state: State, n: int) -> Proposal:
        if found := self.scorer.found(state, n):
            return Proposal(candidates=found, usage=())
        return await self.proposer.propose(state, n)


def _bare(page: Observation) -> Observation:
    return page.model_copy(update={"screenshot": None})


def _node_of(search: Search, state: State) -> int | None:
    """The node at which the agent is now; None where the tree does not know it, or its actions mean other elements."""
    tree, before = search.tree, len(search.state.decisions)
    if state.decisions[:before] != search.state.decisions:
        return None
    node: int | None = 0
    for decision in state.decisions[before:]:
        node = None if node is None else tree.find(node, decision.candidate.action)
    seen = None if node is None or tree.ending[node] != "open" else tree.seen[node]
    if node is None or seen is None or not same_page(seen, state.observation):
        return None
    actions = [tree.move(child).action for child in tree.children[node] if tree.ending[child] != "pruned"]
    try:
        again = [find_again(one, seen, state.observation) for one in actions]
    except DivergedError:
        return None
    same = all(there == one or getattr(one, "point", None) for there, one in zip(again, actions, strict=True))
    return node if same else None
