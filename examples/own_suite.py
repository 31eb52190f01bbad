"""A suite of your own: what its pages are, what its tasks are, and when a task is done. In a real Chromium.

Every command takes it by name; this takes a few seconds:

    .venv/bin/bestofq eval examples.own_suite:make_suite --agents random --split test --runs 4 --store runs/lamps

The part before the colon is a module of the current folder or of an installed package. `--set suite.colours=red,blue`
gives the suite a setting of its own.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Env, EnvFactory, Suite
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.recipes.run_goal import own_hosts

COLOURS = "red,green,blue"


async def evaluate(task: Task, action: Action, seen: Observation) -> tuple[float, bool]:
    """The reward, and whether the task has ended: after every step."""
    return float(seen.url.endswith(f"/lamp/{task.id}")), "/lamp/" in seen.url


class Lamps:
    name, step_limit, sandboxed, needs_judge, judge = "lamps", 5, True, False, None

    def __init__(self, colours: Sequence[str]) -> None:
        self.colours = colours

    async def page(self, request: Request) -> HTMLResponse:
        return HTMLResponse("".join(f"<p><a href=/lamp/{colour}>{colour} lamp</a>" for colour in self.colours))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        async with (
            serve_app(Starlette(routes=[Route("/{path:path}", self.page)])) as self.url,
            Browser.launch() as chromium,
        ):

            async def make_env() -> Env:
                return WebEnv(chromium, screenshots=False, evaluate=evaluate)

            yield make_env

    async def tasks(self, split: Split) -> Sequence[Task]:
        where = {"suite": self.name, "start_url": self.url, "allowed_hosts": own_hosts(self.url), "split": split}
        return [Task(id=colour, goal=f"Open the {colour} lamp", **where) for colour in self.colours]


def make_suite(settings: Mapping[str, object]) -> Suite:
    return Lamps(str(settings.get("colours", COLOURS)).split(","))
