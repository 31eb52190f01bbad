"""A tree of pages as a world: each page offers the same few links, and the way taken decides what it is worth."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bestofq.core.actions import Action, Click
from bestofq.core.decision import Candidate, State, StepResult
from bestofq.core.observation import Element, Observation, Task
from bestofq.core.protocols import Judge, Proposer, Scorer
from bestofq.search.backtracking import Backtracker
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.tree import Move, MutableTree
from bestofq.testing.scripted import ScriptedProposer, ScriptedScorer

TASK = Task(id="branch", suite="branches", goal="find the good page", start_url="branch://")


class BranchEnv:
    """`way` is the marks clicked so far, "12"; an episode ends after `depth` clicks with the reward of its way.

    `steps` counts the actions carried out in all environments of one world.
    """

    def __init__(self, rewards: Mapping[str, float], *, depth: int, steps: list[str]) -> None:
        self.rewards, self.depth, self.steps = rewards, depth, steps
        self.way = ""

    def page(self) -> Observation:
        links = tuple(Element(mark=m, role="link", name=f"door {m} of {self.way or 'the hall'}") for m in (1, 2))
        return Observation(url=f"branch://{self.way}", title=self.way, text=f"at {self.way}", elements=links)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.way = ""
        return self.page()

    async def step(self, action: Action) -> StepResult:
        assert isinstance(action, Click)
        self.way += str(action.mark)
        self.steps.append(self.way)
        ended = len(self.way) == self.depth
        reward = self.rewards.get(self.way, 0.0) if ended else 0.0
        return StepResult(observation=self.page(), reward=reward, terminated=ended)

    async def close(self) -> None:
        self.way = "closed"


class RestoringEnv(BranchEnv):
    async def save(self) -> object:
        return self.way

    async def restore(self, saved: object) -> Observation:
        self.way = str(saved)
        return self.page()


def both_doors(_state: State, _n: int) -> Sequence[str]:
    return ["click [1]", "click [2]"]


def left_is_better(_state: State, candidates: Sequence[Candidate]) -> Sequence[float]:
    return [1.0 - i / max(1, len(candidates) - 1) for i in range(len(candidates))]


async def search_of(
    rewards: Mapping[str, float],
    *,
    depth: int,
    restoring: bool = True,
    make: Callable[[], BranchEnv] | None = None,
    doors: Callable[[State, int], Sequence[str]] = both_doors,
    ranks: Callable[[State, Sequence[Candidate]], Sequence[float]] | None = left_is_better,
    irreversible: Callable[[Observation, Action], bool] | None = None,
    proposer: Proposer | None = None,
    ranker: Scorer | None = None,
    judge: Judge | None = None,
    state: State | None = None,
    before: Sequence[Move] = (),
    **settings: object,
) -> tuple[Search, Backtracker, list[str]]:
    """A search about to begin in the world of these rewards, its environments, and the steps taken so far; `state` at
    its root, none: the start. Rollouts follow the first door offered unless `rollout` says otherwise."""
    steps: list[str] = []
    kind = RestoringEnv if restoring else BranchEnv

    async def make_env() -> BranchEnv:
        return make() if make else kind(rewards, depth=depth, steps=steps)

    config = SearchConfig.model_validate({"candidates": 2, "rollout": "greedy", **settings})
    envs = Backtracker(make_env, TASK, config, irreversible)
    state = state or State(task=TASK, observation=await envs.start())
    tree, proposer = MutableTree(TASK, state.observation, before=before), proposer or ScriptedProposer(doors)
    ranker = ranker or (None if ranks is None else ScriptedScorer(ranks))
    search = Search(tree, state, envs, proposer=proposer, ranker=ranker, judge=judge, depth=depth)
    return search, envs, steps


async def run_search(rewards: Mapping[str, float], **settings: Any) -> tuple[Search, list[str], list[float]]:
    """A search of that world that has run, its steps, and the outcome of each of its rollouts."""
    search, _, steps = await search_of(rewards, **settings)
    outcomes: list[float] = []

    async def report(outcome: float) -> None:
        outcomes.append(outcome)

    await search.run(report=report)
    return search, steps, outcomes
