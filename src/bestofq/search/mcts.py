"""Monte Carlo tree search over web pages (Agent Q, 5.1, the inner loop of Algorithm 1).

An iteration walks from the root by UCB1 to a node whose actions were not proposed yet, proposes K there and has them
ranked, carries out the best-ranked untried one, goes on with the policy's first choice to the end of the episode, and
backs the outcome up. What a rollout passes through becomes part of the tree, each with the one action that was taken;
K are proposed there when selection comes by. No action is carried out twice, but to get back to a page.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from bestofq.core.actions import Action
from bestofq.core.decision import Candidate, Decision, State, StepResult, Usage
from bestofq.core.errors import InfraError, ReplyError
from bestofq.core.observation import Observation
from bestofq.core.protocols import Proposer, Scorer
from bestofq.search.config import SearchConfig
from bestofq.search.returning import DivergedError, Places
from bestofq.search.tree import GrowingTree

log = logging.getLogger(__name__)

IN_A_ROW = 3  # iterations the machinery may break, one after another
Irreversible = Callable[[Observation, Action], bool]
Report = Callable[[float], Awaitable[None]]


class Search:
    """One tree. `state` is what the agent sees at its root, its past decisions included; `ranker` gives Q̂ in [0, 1].

    `start` is the node from which rollouts begin, the root unless the agent has gone on since.
    """

    def __init__(
        self,
        tree: GrowingTree,
        state: State,
        places: Places,
        *,
        proposer: Proposer,
        ranker: Scorer | None,
        config: SearchConfig,
        irreversible: Irreversible = lambda observation, action: False,
    ) -> None:
        self.tree = tree
        self.start = 0
        self.usage: list[Usage] = []
        self.checkpoint: str | None = None  # of the Q-function that ranks, where one does
        self._state = state
        self._before = [decision.candidate.action for decision in state.decisions]
        self._places = places
        self._proposer = proposer
        self._ranker = ranker
        self._config = config
        self._irreversible = irreversible
        self._expanding: dict[int, asyncio.Lock] = {}
        self._arriving: dict[int, asyncio.Event] = {}
        self._failures = 0

    async def run(self, iterations: int | None = None, report: Report | None = None) -> None:
        """So many more rollouts (the configured number unless given), fewer where time is up, a success is enough or
        every branch is closed.

        `report` hears of each one's outcome before the next begins in its place. InfraError after three in a row that
        the machinery broke.
        """
        left = self._config.iterations if iterations is None else iterations
        deadline = time.monotonic() + self._config.seconds if self._config.seconds else None
        success = self._config.stop_at_success and self.tree.solved(self.start)

        async def work() -> None:
            nonlocal left, success
            while left > 0 and not success and (deadline is None or time.monotonic() < deadline):
                if self.tree.ending[self.start] != "open":
                    return
                left -= 1
                outcome = await self._iterate()
                if outcome is None:
                    left += 1  # a branch was closed, or the machinery broke: nothing counts that visits do not show
                    continue
                success = success or (self._config.stop_at_success and outcome >= 1)
                if report is not None:
                    await report(outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._config.parallel, left)):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _iterate(self) -> float | None:
        """The outcome of one rollout; None where it came to none."""
        path: list[int] = []
        try:
            await self._descend(path)
            if self.tree.ending[path[-1]] == "closed":
                return None
            outcome = await self._outcome(path)
        except DivergedError as error:
            log.info("a branch is closed: %s", error)
            self._close(path[-2])  # the page from which its last action was to be carried out
            return None
        except InfraError as error:
            self._failures += 1
            if self._failures == IN_A_ROW:
                raise
            log.warning("a rollout was cut: %s", error)
            return None
        finally:
            self.tree.land(path)
        self._failures = 0
        self.tree.backup(path, outcome)
        return outcome

    # ---- selection and expansion

    async def _descend(self, path: list[int]) -> None:
        """Fill `path` from the root to an action that was not carried out, or to where episodes end."""
        tree, node = self.tree, self.start
        self._walk(path, node)
        while tree.ending[node] == "open" and tree.seen[node] is not None:
            fresh = await self._expand(node)
            child = tree.best_untried(node) if fresh else None
            if child is None:
                child = tree.select(node, self._config.exploration)
            if child is None:
                self._close(node)
                return
            self._walk(path, child)
            node = child
            if node in self._arriving:  # another rollout is carrying it out
                await self._arriving[node].wait()

    def _walk(self, path: list[int], node: int) -> None:
        path.append(node)
        self.tree.take_off([node])

    async def _expand(self, node: int) -> bool:
        """Propose K actions at a node and have them ranked, once. Whether it was this call that did."""
        if self.tree.expanded[node]:
            return False
        async with self._expanding.setdefault(node, asyncio.Lock()):
            if self.tree.expanded[node]:
                return False
            state = self._state_at(node)
            try:
                proposal = await self._proposer.propose(state, self._config.candidates)
            except ReplyError as error:
                log.debug("nothing is proposed at node %d: %s", node, error)
                offered: Sequence[Candidate] = ()
            else:
                self.usage += proposal.usage
                offered = proposal.candidates
            await self.offer(node, state, offered)
            return True

    async def offer(self, node: int, state: State, candidates: Sequence[Candidate]) -> None:
        """Expand a node by these candidates: ranked together with what rollouts have taken there before."""
        for candidate in candidates:
            self._hold(self.tree.child(node, candidate))
        children = [c for n in self.tree.children[node] if (c := self.tree.candidate[n]) is not None]
        if self._ranker is not None and children:
            scores = await self._ranker.score(state, children)
            self.usage += scores.usage
            self.checkpoint = scores.checkpoint
            self.tree.rank(node, scores.values)
        self.tree.expanded[node] = True

    def _hold(self, node: int) -> None:
        """Mark an action that must not be carried out."""
        candidate, seen = self.tree.candidate[node], self.tree.seen[self.tree.parent[node]]
        assert candidate is not None
        assert seen is not None
        if not self._config.sandboxed and self.tree.seen[node] is None and self._irreversible(seen, candidate.action):
            self.tree.ending[node] = "held"

    # ---- rollout

    async def _outcome(self, path: list[int]) -> float:
        """R of the episode that `path` begins; what it passes through is added to `path` and to the tree."""
        tree, leaf = self.tree, path[-1]
        if tree.ending[leaf] in ("held", "ended"):
            return self._brought(leaf)
        arrived = self._arriving[leaf] = asyncio.Event()
        try:
            async with self._places.borrow() as place:
                above = tree.parent[leaf]
                await self._places.reach(place, above, self._actions(above), tree.seen[above])
                await self._arrive(leaf, await place.env.step(self._action(leaf)))
                arrived.set()
                await self._places.save(place, leaf)
                while tree.ending[path[-1]] == "open":
                    node = await self._next(path[-1])
                    if node is None:
                        return 0.0
                    self._walk(path, node)
                    if tree.ending[node] == "held":
                        return self._brought(node)
                    await self._arrive(node, await place.env.step(self._action(node)))
                    await self._places.save(place, node)
        finally:
            arrived.set()
            self._arriving.pop(leaf, None)
        return self._brought(path[-1])

    async def _next(self, node: int) -> int | None:
        """Where the policy's own first choice leads; None where it has none, which ends the episode in failure."""
        state = self._state_at(node)
        try:
            proposal = await self._proposer.propose(state, 1)
        except ReplyError as error:
            log.debug("a rollout ends at node %d: %s", node, error)
            self.tree.ending[node] = "ended"
            return None
        self.usage += proposal.usage
        child = self.tree.child(node, proposal.candidates[0])
        self._hold(child)
        if self.tree.ending[child] == "held":
            await self._expand(node)  # feedback alone can tell what it is worth
        return child

    async def _arrive(self, node: int, result: StepResult) -> None:
        tree = self.tree
        if result.truncated:
            raise InfraError("the environment was cut off")
        tree.seen[node] = result.observation
        tree.reward[node] = result.reward or 0.0
        if result.terminated or tree.depth[node] >= self._config.depth:
            tree.ending[node] = "ended"
            tree.reward[node] = (result.reward or 0.0) if result.terminated else 0.0

    def _brought(self, node: int) -> float:
        """R of a rollout that ends at the node: what feedback says of an action that is held, else its reward."""
        if self.tree.ending[node] == "held":
            return self.tree.prior[node] or 0.0
        reward = self.tree.reward[node]
        return reward if self._config.outcome == "reward" else float(reward >= 1.0)

    # ---- where nodes are

    def _close(self, node: int) -> None:
        self.tree.ending[node] = "closed"

    def _action(self, node: int) -> Action:
        candidate = self.tree.candidate[node]
        assert candidate is not None
        return candidate.action

    def _actions(self, node: int) -> list[Action]:
        return [*self._before, *map(self._action, self.tree.path(node)[1:])]

    def _state_at(self, node: int) -> State:
        """What the agent sees at a node: the actions that led there, each as the one candidate of its step."""
        taken = (self.tree.candidate[n] for n in self.tree.path(node)[1:])
        seen = self.tree.seen[node]
        assert seen is not None
        return state_after(self._state, [c for c in taken if c is not None], seen)


def state_after(state: State, taken: Sequence[Candidate], seen: Observation) -> State:
    """`state` with the actions `taken` since, and what is seen then. Earlier pictures are not kept in a tree."""
    decisions = tuple(Decision(candidates=(c,), scores=(0.0,), chosen=0) for c in taken)
    return state.model_copy(update={"decisions": state.decisions + decisions, "observation": seen, "screenshots": ()})
