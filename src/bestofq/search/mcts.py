"""Monte Carlo tree search over web pages (Agent Q, 5.1, the inner loop of Algorithm 1).

An iteration walks from the root by UCB1 to a node whose actions were not proposed yet, proposes K there and has them
ranked, carries out the best-ranked untried one, goes on with the policy's first choice to the end of the episode, and
backs the outcome up: the environment's reward, or a judge's where it gives none (6.1). What a rollout passes through
becomes part of the tree, each with the one action that was taken; K are proposed there when selection comes by. No
action is carried out twice, but to get back to a page.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from bestofq import __version__
from bestofq.core.decision import (
    TOLD,
    Candidate,
    Decision,
    Episode,
    Proposal,
    Provenance,
    State,
    Step,
    StepResult,
    Usage,
    Verdict,
)
from bestofq.core.errors import ConfigError, InfraError, ReplyError
from bestofq.core.observation import Observation
from bestofq.core.protocols import Judge, Proposer, Samples, Scorer
from bestofq.search.config import SearchConfig
from bestofq.search.returning import DivergedError, Move, Place, Places
from bestofq.search.tree import GrowingTree

log = logging.getLogger(__name__)

IN_A_ROW = 3  # iterations the machinery may break, one after another
Report = Callable[[float], Awaitable[None]]


class Search:
    """One tree. `state` is what the agent sees at its root, its past decisions included, and `before` the pages that
    these were taken on; `ranker` gives Q̂ in [0, 1]; `judge` says what an episode is worth where the environment cannot
    tell.

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
        judge: Judge | None = None,
        before: Sequence[Observation] = (),
    ) -> None:
        self.tree = tree
        self.start = 0
        self.usage: list[Usage] = []
        self.checkpoint: str | None = None  # of the Q-function that ranks, where one does
        self._state = state
        pages = before if len(before) == len(state.decisions) else [None] * len(state.decisions)
        self._before = [Move(page, of.candidate.action) for page, of in zip(pages, state.decisions, strict=True)]
        self._places = places
        self._proposer = proposer
        self._ranker = ranker
        self._config = config
        self._judge = judge
        self._expanding: dict[int, asyncio.Lock] = {}
        self._arriving: dict[int, asyncio.Event] = {}
        self._failures = 0

    async def run(self, iterations: int | None = None, report: Report | None = None) -> None:
        """So many more rollouts (the configured number unless given), fewer where time is up, a success is enough or
        every branch is closed.

        `report` hears of each one's outcome before the next begins in its place. InfraError after three in a row that
        the machinery broke; ConfigError where nobody can tell how an episode ended.
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
                success = self._config.stop_at_success and self.tree.solved(self.start)
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
            outcome = None if self.tree.ending[path[-1]] == "closed" else await self._outcome(path)
            if outcome is None:
                return None
        except DivergedError as error:
            log.info("a branch is closed: %s", error)
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
            while node in self._arriving:  # another rollout is carrying it out
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
        ranked = list(self.tree.children[node])  # more may come while it is asked, by rollouts of other workers
        children = [c for n in ranked if (c := self.tree.candidate[n]) is not None]
        if self._ranker is not None and children:
            scores = await self._ranker.score(state, children)
            self.usage += scores.usage
            self.checkpoint = scores.checkpoint
            self.tree.rank(ranked, scores.values)
        self.tree.expanded[node] = True

    def _hold(self, node: int) -> None:
        """Mark an action that must not be carried out."""
        candidate, seen = self.tree.candidate[node], self.tree.seen[self.tree.parent[node]]
        assert candidate is not None
        assert seen is not None
        if self.tree.seen[node] is None and self._places.unsafe(seen, candidate.action):
            self.tree.ending[node] = "held"

    # ---- rollout

    async def _outcome(self, path: list[int]) -> float | None:
        """R of the episode that `path` begins, None where its way is closed; what it passes through is added to `path`
        and to the tree."""
        tree = self.tree
        if tree.ending[path[-1]] == "open":
            with self._on_the_way(path[-1]):
                async with self._places.borrow() as place:
                    above = tree.parent[path[-1]]
                    await self._back(place, above)
                    await self._carry_out(place, path[-1])
                    while tree.ending[path[-1]] == "open":
                        node = await self._next(path[-1])
                        if node is None:
                            return 0.0
                        self._walk(path, node)
                        await self._go(place, node)
        return None if tree.ending[path[-1]] == "closed" else self._brought(path[-1])

    async def _go(self, place: Place, node: int) -> None:
        """One step down: carried out, unless another rollout has done so, or is about to."""
        while node in self._arriving:
            await self._arriving[node].wait()
        if self.tree.ending[node] != "open":
            return
        if self.tree.seen[node] is not None:
            await self._back(place, node)
            return
        with self._on_the_way(node):
            await self._carry_out(place, node)

    @contextmanager
    def _on_the_way(self, node: int) -> Iterator[None]:
        """Others wait at the node until it was reached, or could not be."""
        self._arriving[node] = asyncio.Event()
        try:
            yield
        finally:
            self._arrived(node)

    def _arrived(self, node: int) -> None:
        if event := self._arriving.pop(node, None):
            event.set()

    async def _carry_out(self, place: Place, node: int) -> None:
        try:
            result = await self._places.step(place, self._move(node))
        except DivergedError:
            self._close(node)
            raise
        await self._arrive(node, result)
        await self._places.save(place, node)
        self._arrived(node)

    async def _back(self, place: Place, node: int) -> None:
        try:
            moves = [*self._before, *map(self._move, self.tree.path(node)[1:])]
            await self._places.reach(place, node, moves, self.tree.seen[node])
        except DivergedError:
            self._close(node)
            raise

    async def _next(self, node: int) -> int | None:
        """Where the policy itself goes; None where it has no valid action, which ends the rollout in failure, and the
        episode for good where the policy is not drawn from."""
        sampled = self._config.rollout == "sample"
        try:
            proposal = await (self._sample(node) if sampled else self._proposer.propose(self._state_at(node), 1))
        except ReplyError as error:
            log.debug("a rollout ends at node %d: %s", node, error)
            if not sampled:
                self.tree.ending[node] = "ended"
            return None
        self.usage += proposal.usage
        child = self.tree.child(node, proposal.candidates[0])
        self._hold(child)
        if self.tree.ending[child] == "held":
            await self._expand(node)  # feedback alone can tell what it is worth
        return child

    async def _sample(self, node: int) -> Proposal:
        """An action drawn from the policy, another draw each time that a rollout comes by."""
        state, passed = self._state_at(node), self.tree.visits[node] + self.tree.flying[node]
        digest = hashlib.sha256(f"{state.task.seed}\x1f{self.tree.depth[node]}\x1f{passed}".encode()).digest()
        task = state.task.model_copy(update={"seed": int.from_bytes(digest[:8], "big") >> 1})
        state = state.model_copy(update={"task": task})
        if isinstance(self._proposer, Samples):
            return await self._proposer.sample(state)
        return await self._proposer.propose(state, 1)

    async def _arrive(self, node: int, result: StepResult) -> None:
        tree = self.tree
        if result.truncated:
            raise InfraError("the environment was cut off")
        if result.terminated and result.reward is None:
            tree.reward[node] = await self._judged(node, result.observation)
        elif result.terminated or tree.depth[node] < self._config.depth:
            tree.reward[node] = result.reward or 0.0
        if result.terminated or tree.depth[node] >= self._config.depth:
            tree.ending[node] = "ended"
        tree.seen[node] = result.observation

    async def _judged(self, node: int, final: Observation) -> float:
        """What the judge gives the episode that ends at the node. InfraError where it cannot tell."""
        if self._judge is None:
            raise ConfigError(
                f"nobody can tell what an episode of {self.tree.task.suite} is worth: a search there needs a judge "
                "(--set judge.model=…, and judge.base_url)"
            )
        verdict = await self._judge.judge(self._episode(node, final))
        self.usage += verdict.usage
        if verdict.outcome not in TOLD:
            raise InfraError(f"the judge could not tell how an episode ended: {verdict.reason or verdict.outcome}")
        return verdict.reward

    def _episode(self, node: int, final: Observation) -> Episode:
        """What a judge reads of the episode that ends at the node; an earlier page that is not known is the root's."""
        pages = [move.page or self._state.observation for move in self._before]
        taken = list(zip(pages, self._state.decisions, strict=True))
        taken += [
            (seen, _taken(candidate))
            for n in self.tree.path(node)[1:]
            if (seen := self.tree.seen[self.tree.parent[n]]) and (candidate := self.tree.candidate[n])
        ]
        return Episode(
            id="",
            run="",
            agent="search",
            task=self.tree.task,
            steps=tuple(Step(index=i, observation=seen, decision=of) for i, (seen, of) in enumerate(taken)),
            final=final,
            verdict=Verdict(reward=0.0, outcome="unjudged"),
            provenance=Provenance(version=__version__),
        )

    def _brought(self, node: int) -> float:
        """R of a rollout that ends at the node: what feedback says of an action that is held, else its reward."""
        if self.tree.ending[node] == "held":
            return self.tree.prior[node] or 0.0
        reward = self.tree.reward[node]
        return reward if self._config.outcome == "reward" else float(reward >= 1.0)

    # ---- where nodes are

    def _close(self, node: int) -> None:
        self.tree.ending[node] = "closed"

    def _move(self, node: int) -> Move:
        """The action that leads to the node, and the page that it was chosen on."""
        candidate = self.tree.candidate[node]
        assert candidate is not None
        return Move(self.tree.seen[self.tree.parent[node]], candidate.action)

    def _state_at(self, node: int) -> State:
        """What the agent sees at a node: the actions that led there, each as the one candidate of its step."""
        taken = (self.tree.candidate[n] for n in self.tree.path(node)[1:])
        seen = self.tree.seen[node]
        assert seen is not None
        return state_after(self._state, [c for c in taken if c is not None], seen)


def state_after(state: State, taken: Sequence[Candidate], seen: Observation) -> State:
    """`state` with the actions `taken` since, and what is seen then. Earlier pictures are not kept in a tree."""
    decisions = state.decisions + tuple(map(_taken, taken))
    return state.model_copy(update={"decisions": decisions, "observation": seen, "screenshots": ()})


def _taken(candidate: Candidate) -> Decision:
    """An action as the one candidate of its step."""
    return Decision(candidates=(candidate,), scores=(0.0,), chosen=0)
