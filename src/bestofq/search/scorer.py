"""Search at inference as a scorer (Agent Q, 5.1 and 6.2): candidates are worth what rollouts through them brought."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bestofq.core.actions import identity
from bestofq.core.decision import Candidate, Proposal, Scores, State
from bestofq.core.observation import Observation
from bestofq.core.protocols import Env, Judge, Proposer, Scorer
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.returning import Irreversible, Places, same_page
from bestofq.search.tree import GrowingTree

TREES = 256  # episodes in flight whose trees are kept

_Key = tuple[str, int]


@dataclass
class _Kept:
    search: Search
    places: Places
    root: State


class TreeScorer:
    """Q̃ of each candidate after the configured rollouts in environments of its own, never in the agent's.

    An episode keeps its tree from step to step: what was found below the action taken is not searched again, and a
    step's rollouts are those that are missing. The agent's own environment is only ever compared with the tree: where
    its page is not the one that the tree has there, a new tree begins.
    """

    def __init__(
        self,
        make_env: Callable[[], Awaitable[Env]],
        *,
        proposer: Proposer,
        ranker: Scorer | None,
        config: SearchConfig,
        irreversible: Irreversible = lambda observation, action: False,
        judge: Judge | None = None,
    ) -> None:
        self._make_env = make_env
        self._proposer = proposer
        self._ranker = ranker
        self._config = config
        self._irreversible = irreversible
        self._judge = judge
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._pages: OrderedDict[_Key, list[Observation]] = OrderedDict()  # that each episode has been on

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] in [0, 1], 0 for what no rollout tried; between equal ones feedback decides. The value is the root's."""
        self._note(state)
        kept, node = await self._tree_at(state)
        search, tree = kept.search, kept.search.tree
        search.usage.clear()
        search.start = node
        if not self._enough(tree, node):
            if not tree.expanded[node]:
                await search.offer(node, state, candidates)
            await search.run(self._config.iterations - tree.visits[node])
        children = [tree.child(node, candidate) for candidate in candidates]
        values = tuple(tree.value[child] + 1e-6 * (tree.prior[child] or 0.0) for child in children)
        return Scores(
            values=values,
            state_value=tree.value[node],
            checkpoint=search.checkpoint,
            visits=tuple(tree.visits[child] for child in children),
            feedback=None if self._ranker is None else tuple(tree.prior[child] for child in children),
            usage=tuple(search.usage),
        )

    def found(self, state: State) -> tuple[Candidate, ...]:
        """What the tree has tried here, where it holds a success below and one is enough; else nothing."""
        kept = self._kept.get(_key(state))
        node = None if kept is None else _node_of(kept, state)
        if kept is None or node is None or not self._enough(kept.search.tree, node):
            return ()
        tree = kept.search.tree
        return tuple(c for n in tree.children[node] if tree.visits[n] and (c := tree.candidate[n]) is not None)

    def _enough(self, tree: GrowingTree, node: int) -> bool:
        return self._config.stop_at_success and tree.solved(node)

    async def close(self) -> None:
        """Close the environments of all trees."""
        self._pages.clear()
        while self._kept:
            await self._kept.popitem()[1].places.close()

    async def _tree_at(self, state: State) -> tuple[_Kept, int]:
        key = _key(state)
        kept = self._kept.pop(key, None)
        node = None if kept is None else _node_of(kept, state)
        if kept is None or node is None:
            if kept is not None:
                await kept.places.close()
            kept, node = self._begin(state), 0
        self._kept[key] = kept
        while len(self._kept) > TREES:
            await self._kept.popitem(last=False)[1].places.close()
        return kept, node

    def _note(self, state: State) -> None:
        """Keep the page that the episode is on: a search that begins later carries its actions out again."""
        pages = self._pages.pop(_key(state), [])[: len(state.decisions)]
        self._pages[_key(state)] = [*pages, state.observation.model_copy(update={"screenshot": None})]
        while len(self._pages) > TREES:
            self._pages.popitem(last=False)

    def _begin(self, state: State) -> _Kept:
        places = Places(self._make_env, state.task, self._config, self._irreversible)
        search = Search(
            GrowingTree(state.task, state.observation, depth=len(state.decisions)),
            state,
            places,
            proposer=self._proposer,
            ranker=self._ranker,
            config=self._config,
            judge=self._judge,
            before=self._pages[_key(state)][:-1],
        )
        return _Kept(search, places, state)


class FoundProposer:
    """Offers what a search has found, where that is enough; elsewhere asks another proposer, the model."""

    def __init__(self, scorer: TreeScorer, proposer: Proposer) -> None:
        self._scorer = scorer
        self._proposer = proposer

    async def propose(self, state: State, n: int) -> Proposal:
        if found := self._scorer.found(state):
            return Proposal(candidates=found, usage=())
        return await self._proposer.propose(state, n)


def _key(state: State) -> _Key:
    return state.task.id, state.seed


def _node_of(kept: _Kept, state: State) -> int | None:
    """The node at which the agent is now, None where the tree does not know it."""
    tree, before = kept.search.tree, len(kept.root.decisions)
    if state.decisions[:before] != kept.root.decisions:
        return None
    node = 0
    for decision in state.decisions[before:]:
        action = identity(decision.candidate.action)
        follows = (n for n in tree.children[node] if (c := tree.candidate[n]) and identity(c.action) == action)
        found = next(follows, None)
        if found is None:
            return None
        node = found
    seen = tree.seen[node]
    if seen is None or tree.ending[node] != "open" or not same_page(seen, state.observation):
        return None
    return node
