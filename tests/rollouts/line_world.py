"""A line of pages with a link back and a link on: the smallest world in which one can go the wrong way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from bestofq.agents.agent import Agent
from bestofq.agents.selectors import EpsilonGreedySelector
from bestofq.core.actions import Action, Click
from bestofq.core.decision import State, StepResult
from bestofq.core.errors import BrowserError
from bestofq.core.observation import Element, Observation, Task
from bestofq.core.protocols import Selector
from bestofq.testing.scripted import ScriptedProposer


def line_task(name: str, length: int = 4) -> Task:
    return Task(id=name, suite="line", goal=f"reach page {length}", start_url="line://0", split="train")


def page(number: int, *, error: str | None = None) -> Observation:
    links = (Element(mark=1, role="link", name="one back"), Element(mark=2, role="link", name="one on"))
    text = f"This is page {number}.\none back [1]\none on [2]"
    return Observation(url=f"line://{number}", title=f"Page {number}", text=text, elements=links, error=error)


class LineEnv:
    """Reward 1 on the page that the goal names; marks 1 and 2 lead back and on."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.at = self.goal = 0
        self.closed = False

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.at, self.goal = 0, int(task.goal.split()[-1])
        return page(self.at)

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(self.seconds)
        if not isinstance(action, Click):
            return StepResult(observation=page(self.at, error="only clicks work here"))
        self.at = max(0, self.at + (1 if action.mark == 2 else -1))
        there = self.at == self.goal
        return StepResult(observation=page(self.at), reward=float(there), terminated=there)

    async def close(self) -> None:
        self.closed = True


class Crashing(LineEnv):
    """Its machinery breaks in the steps that are chosen. `steps` counts those of all environments."""

    def __init__(self, crashes: Callable[[int], bool], steps: Iterator[int]) -> None:
        super().__init__()
        self.crashes, self.steps = crashes, steps

    async def step(self, action: Action) -> StepResult:
        if self.crashes(next(self.steps)):
            raise BrowserError("Chromium crashed")
        return await super().step(action)


def maker(kind: Callable[[], LineEnv] = LineEnv) -> Callable[[], Awaitable[LineEnv]]:
    """What a run makes its environments with."""

    async def make() -> LineEnv:
        return kind()

    return make


def both_links(_state: State, _n: int) -> Sequence[str]:
    return ["On is nearer.\nclick [2]", "click [1]"]


def line_agent(
    *, name: str = "walker", selector: Selector | None = None, seconds: float = 0.0, replies: object = both_links
) -> Agent:
    return Agent(
        name=name,
        proposer=ScriptedProposer(replies, seconds=seconds),  # type: ignore[arg-type]
        selector=selector or EpsilonGreedySelector(0.3),
    )
