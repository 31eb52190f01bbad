"""An environment without a site: a corridor of doors, of which the last leads out."""

from bestofq.core.actions import Action, Answer, Click
from bestofq.core.decision import StepResult
from bestofq.core.observation import Element, Observation, Task

TASK = Task(id="corridor", suite="corridor", goal="find the way out", start_url="corridor://0")
LENGTH = 40


class ScriptedEnv:
    """Mark 1 leads back, mark 2 on; reward 1 at the end of the corridor."""

    def __init__(self) -> None:
        self._at: int | None = None
        self._error: str | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._at, self._error = 0, None
        return self._page()

    async def step(self, action: Action) -> StepResult:
        if self._at is None:
            raise RuntimeError("the environment has no episode; reset it first")
        self._error = None
        if isinstance(action, Click) and action.mark in (1, 2):
            self._at = max(0, self._at + (1 if action.mark == 2 else -1))
        elif not isinstance(action, Answer):
            self._error = "There is no such door."
        out = self._at == LENGTH
        return StepResult(observation=self._page(), reward=float(out), terminated=out or isinstance(action, Answer))

    async def save(self) -> tuple[int | None, str | None]:
        return self._at, self._error

    async def restore(self, saved: object) -> Observation:
        assert isinstance(saved, tuple)
        self._at, self._error = saved
        return self._page()

    async def close(self) -> None:
        self._at = None

    def _page(self) -> Observation:
        doors = (Element(mark=1, role="link", name="back"), Element(mark=2, role="link", name="on"))
        return Observation(
            url=f"corridor://{self._at}", title="Corridor", text="back [1]\non [2]", elements=doors, error=self._error
        )
