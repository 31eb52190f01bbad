"""Monte Carlo tree search over web pages (Agent Q, 5.1): the inner loop of Algorithm 1.

What a rollout passes through becomes part of the tree, each node with the one action that was taken; K are proposed
there when selection comes by. No action is carried out twice, except to get back to a page.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TypeVar, cast

from pydantic import TypeAdapter

from bestofq import __version__
from bestofq.core.decision import (
    DECIDED,
    Candidate,
    Decision,
    Episode,
    Proposal,
    Provenance,
    Scores,
    State,
    Step,
    Verdict,
)
from bestofq.core.errors import ConfigError, InfraError, ReplyError
from bestofq.core.identity import key_of
from bestofq.core.observation import Observation
from bestofq.core.protocols import Env, Judge, Localizer, Proposer, Samples, Scorer
from bestofq.core.repeating import DivergedError, locate_candidate
from bestofq.core.seeds import step_seed
from bestofq.core.usage import Usage
from bestofq.search.backtracking import Backtracker
from bestofq.search.tree import MutableTree, taken_to

log = logging.getLogger(__name__)

IN_A_ROW = 3  # iterations the machinery may break, one after another
Report = Callable[[float], Awaitable[None]]
Reply = Proposal | Scores | Verdict
R = TypeVar("R", Proposal, Scores, Verdict)
_REPLIES: TypeAdapter[list[tuple[str, Reply]]] = TypeAdapter(list[tuple[str, Reply]])


@dataclass
class Search:
    """One tree. The replies `kept` by a search of it that was killed are not requested again as long as the rollout
    leads to the same pages."""

    tree: MutableTree
    state: State  # what the agent sees at the root, with its past decisions
    backtracker: Backtracker
    _: KW_ONLY
    proposer: Proposer
    ranker: Scorer | None  # gives Q̂ in [0, 1]
    judge: Judge | None = None  # says what an episode is worth if the environment cannot
    localizer: Localizer | None = None  # places targets in words
    depth: int  # T, the steps from the root to the end of an episode
    start: int = 0  # the node from which rollouts begin: the root, or a node below it once the agent has acted
    keep: Callable[[str], Awaitable[None]] | None = None  # gets the replies of the rollout after each of them, as text
    kept: str = "[]"  # that text
    usage: list[Usage] = field(default_factory=list)
    checkpoint: str | None = None  # of the Q-function that ranks, where one does
    _failures: int = 0
    _told: bool = False  # whether the judge could tell how any episode ended

    def __post_init__(self) -> None:
        self._told = self.tree.visits[0] > 0  # of a tree that is gone on with
        self.config = self.backtracker.config
        self._left = _REPLIES.validate_json(self.kept)
        self._replies: list[tuple[str, Reply]] = []  # of the rollout under way

    async def run(self, iterations: int | None = None, report: Report | None = None) -> None:
        """Run so many more rollouts, or fewer if a success is enough or every branch is pruned. `report` gets each
        outcome before the next rollout begins.

        InfraError after three in a row that the machinery broke; ConfigError where nobody tells how an episode ended.
        """
        left = self.config.iterations if iterations is None else iterations
        while left > 0 and self.tree.ending[self.start] == "open" and not self.enough(self.start):
            outcome = await self._unless_broken()
            if outcome is not None:  # nothing counts that visits do not show
                left -= 1
                self._replies.clear()
                if report is not None:
                    await report(outcome)

    async def iterate(self) -> float | None:
        """Algorithm 1's inner loop, once: the outcome R of one rollout, None where its branch was pruned."""
        path = await self.select()
        await self.simulate(path)
        outcome = self.evaluate(path[-1])
        if outcome is not None:
            self.tree.backup(path, outcome)
        return outcome

    async def select(self) -> list[int]:
        """Return a path by UCB1 (Eq. 7), from the start to an action that was not carried out or to where episodes end.
        At a node that is expanded on the way the best-ranked untried action comes next, whatever its UCB1."""
        tree, path = self.tree, [self.start]
        while tree.ending[node := path[-1]] == "open" and tree.seen[node] is not None:
            child = tree.find_best_new_child(node) if await self.expand(node) else None
            if child is None:
                child = tree.argmax_ucb1(node, self.config.exploration)
            if child is None:
                tree.ending[node] = "pruned"
                break
            path.append(child)
        return path

    async def expand(self, node: int) -> bool:
        """Propose K actions at a node and have them ranked (5.1.1), once. Whether it was this call that did."""
        if self.tree.expanded[node]:
            return False
        state = self._state_at(node)
        propose = partial(self.proposer.propose, state, self.config.candidates)
        await self.offer(node, state, await self._propose(node, propose))
        return True

    async def offer(self, node: int, state: State, candidates: Sequence[Candidate]) -> None:
        """Expand a node by these candidates: ranked together with what rollouts have taken there before."""
        for candidate in candidates:
            self._add(node, candidate)
        ranked = self.tree.children[node]
        children = [c for n in ranked if (c := self.tree.candidate[n]) is not None]
        if self.ranker is not None and children:
            scores = await self._reply(node, state.observation, partial(self.ranker.score, state, children))
            self.usage += scores.usage
            self.checkpoint = scores.checkpoint
            self.tree.rank(ranked, scores.values)
        self.tree.expanded[node] = True

    async def simulate(self, path: list[int]) -> None:
        """Carry out the last action of `path` and follow the policy to the end of the episode (5.1.2). Stop at an
        unsafe action, or if the policy has no valid action. Nodes on the way join `path` and the tree."""
        tree = self.tree
        if tree.ending[path[-1]] != "open":
            return
        async with self.backtracker.ready() as env:
            await self._go_to(env, tree.parent[path[-1]])
            await self._go_to(env, path[-1])
            while tree.ending[path[-1]] == "open" and (node := await self._follow_policy(path[-1])) is not None:
                path.append(node)
                if tree.ending[node] == "open":
                    await self._go_to(env, node)

    def evaluate(self, node: int) -> float | None:
        """Return R of a rollout that ended at the node: the reward of the environment or of the judge (6.1). It is Q̂
        for an unsafe action, 0 if the policy had no valid action, and None if the node is pruned."""
        reward = self.tree.reward[node]
        match self.tree.ending[node]:
            case "ended":
                return float(reward >= 1.0)
            case "unsafe":
                return self.tree.prior[node] or 0.0
            case "open":
                return 0.0
            case "pruned":
                return None

    def enough(self, node: int) -> bool:
        """Whether one success is enough, and there is one at the node or below it."""
        return self.config.stop_at_success and self.tree.is_solved(node)

    # ---- below the main steps

    async def _unless_broken(self) -> float | None:
        """`iterate`, None where it came to nothing. InfraError after three in a row that the machinery broke."""
        try:
            outcome = await self.iterate()
        except DivergedError as error:
            log.info("a branch is pruned: %s", error)
            return None
        except InfraError as error:
            self._failures += 1
            if self._failures == IN_A_ROW:
                raise
            log.warning("a rollout was cut: %s", error)
            return None
        if outcome is not None:
            self._failures = 0
        return outcome

    def _add(self, parent: int, candidate: Candidate) -> int:
        """The node of an action at a page that was seen; unsafe where it must not be carried out there."""
        node, page = self.tree.child(parent, candidate), self.tree.seen[parent]
        if page is not None and self.tree.seen[node] is None and self.backtracker.unsafe(page, candidate.action):
            self.tree.ending[node] = "unsafe"
        return node

    async def _reply(self, node: int, page: Observation, request: Callable[[], Awaitable[R]]) -> R:
        """The reply of a model about what a node shows: the kept one, else a new one, which is kept."""
        if self.keep is None:
            return await request()
        key = key_of({"rollouts": self.tree.visits[0], "node": node, "page": page.page})
        if self._left and self._left[0][0] == key:
            reply = cast("R", self._left.pop(0)[1])
        else:
            self._left.clear()
            reply = await request()
        self._replies.append((key, reply))
        await self.keep(_REPLIES.dump_json(self._replies, exclude_none=True).decode())
        return reply

    async def _propose(self, node: int, request: Callable[[], Awaitable[Proposal]]) -> Sequence[Candidate]:
        """What the policy proposes; nothing where its replies hold no valid action. Both are paid for."""

        async def propose() -> Proposal:
            try:
                return await request()
            except ReplyError as error:
                log.debug("nothing is proposed: %s", error)
                return Proposal(candidates=(), usage=error.usage)

        page = self.tree.seen[node]
        assert page is not None
        proposal = await self._reply(node, page, propose)
        self.usage += proposal.usage
        return () if proposal.failed else proposal.candidates

    async def _follow_policy(self, node: int) -> int | None:
        """Where the policy goes; None where it has no valid action. Unless it is drawn from, the episode ends there."""
        sampled = self.config.rollout == "sample"
        propose = partial(self.proposer.propose, self._state_at(node), 1)
        candidates = await self._propose(node, partial(self._sample, node) if sampled else propose)
        if not candidates:
            if not sampled:
                self.tree.ending[node], self.tree.reward[node] = "ended", 0.0
            return None
        child = self._add(node, candidates[0])
        if self.tree.ending[child] == "unsafe":
            await self.expand(node)  # feedback alone can tell what it is worth
        return child

    async def _sample(self, node: int) -> Proposal:
        """An action drawn from the policy, another draw each time that a rollout passes."""
        state = self._state_at(node)
        state = state.model_copy(update={"seed": step_seed(state.step_seed, self.tree.visits[node] + 1)})
        if isinstance(self.proposer, Samples):
            return await self.proposer.sample(state)
        return await self.proposer.propose(state, 1)

    async def _go_to(self, env: Env, node: int) -> None:
        """Get back to a page that was seen, or carry out the action that leads to a new one. If a page is another now,
        the node is pruned: DivergedError."""
        try:
            if self.tree.seen[node] is None:
                await self._carry_out(env, node)
            else:
                await self.backtracker.reach(env, self.tree, node)
        except DivergedError:
            self.tree.ending[node] = "pruned"
            raise

    async def _carry_out(self, env: Env, node: int) -> None:
        """Carry out the action that leads to the node, and keep what is seen there and what it brought."""
        tree = self.tree
        await self._place(node)
        result = await self.backtracker.step(env, tree.move(node))
        if result.truncated:
            raise InfraError("the environment was cut off")
        at_depth = tree.depth[node] >= self.depth
        if result.terminated and result.reward is None:
            tree.reward[node] = await self._judge_leaf(node, result.observation)
        elif result.terminated or not at_depth:
            tree.reward[node] = result.reward or 0.0
        if result.terminated or at_depth:
            tree.ending[node] = "ended"
        tree.seen[node] = result.observation
        await self.backtracker.save(env, node)

    async def _place(self, node: int) -> None:
        """Find what the action that leads to the node names in words. The tree keeps the point, for replays."""
        candidate, page = self.tree.candidate[node], self.backtracker.page
        if self.localizer is not None and candidate is not None and page is not None:
            placed = await self._reply(node, page, partial(self._locate, candidate, page, self.localizer))
            self.tree.candidate[node] = placed.candidates[0]
            self.usage += placed.usage

    async def _locate(self, candidate: Candidate, page: Observation, localizer: Localizer) -> Proposal:
        candidate, used = await locate_candidate(candidate, page, localizer)
        return Proposal(candidates=(candidate,), usage=used)

    async def _judge_leaf(self, node: int, final: Observation) -> float:
        """What the judge gives the episode that ends at the node. Where it cannot tell the node is pruned, so that it
        is not asked again: DivergedError, or InfraError while it could tell of no episode yet."""
        if self.judge is None:
            raise ConfigError(
                f"nobody can tell what an episode of {self.tree.task.suite} is worth: a search there needs a judge "
                "(--set endpoints.judge.model=…, and its base_url)"
            )
        verdict = await self._reply(node, final, partial(self.judge.judge, self._episode(node, final)))
        self.usage += verdict.usage
        if verdict.outcome not in DECIDED:
            self.tree.ending[node] = "pruned"
            kind = DivergedError if self._told else InfraError
            raise kind(f"the judge could not tell how an episode ended: {verdict.reason or verdict.outcome}")
        self._told = True
        return verdict.reward

    def _episode(self, node: int, final: Observation) -> Episode:
        """What a judge reads of the episode that ends at the node; an earlier page that is not known is the root's."""
        pages = [move.page or self.state.observation for move in self.tree.moves(node)]
        decisions = state_after(self.state, taken_to(node, self.tree), final).decisions
        steps = enumerate(zip(pages, decisions, strict=True))
        return Episode(
            id="",
            run="",
            agent="search",
            task=self.tree.task,
            steps=tuple(Step(index=i, observation=page, decision=decision) for i, (page, decision) in steps),
            final=final,
            verdict=Verdict(reward=0.0, outcome="unjudged"),
            provenance=Provenance(version=__version__),
        )

    def _state_at(self, node: int) -> State:
        """What the agent sees at a node: the actions that led there, each as the one candidate of its step."""
        seen = self.tree.seen[node]
        assert seen is not None
        return state_after(self.state, taken_to(node, self.tree), seen)


def state_after(state: State, taken: Sequence[Candidate], seen: Observation) -> State:
    """`state` with the actions `taken` since, and what is seen then. Earlier pictures are not kept in a tree."""
    decisions = state.decisions + tuple(Decision(candidates=(c,), scores=(0.0,), chosen=0) for c in taken)
    return state.model_copy(update={"decisions": decisions, "observation": seen, "screenshots": ()})
