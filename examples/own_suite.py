"""A suite of your own: what its pages are, what its tasks are, and when a task is done. In a real Chromium.

Every command takes it by name; this takes a few seconds:

    .venv/bin/bestofq eval examples.own_suite:make_suite --agents random --split test --runs 4 --store runs/lamps

The part before the colon is a module of the current folder or of an installed package. `--set suite.colours=red,blue`
gives the suite a setting of its own.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

import bestofq as bq

COLOURS = "red,green,blue"


async def evaluate(task: bq.Task, action: bq.Action, seen: bq.Observation) -> tuple[float, bool]:
    """The reward, and whether the task has ended: after every step."""
    return float(seen.url.endswith(f"/lamp/{task.id}")), "/lamp/" in seen.url


class Lamps:
    name, step_limit, sandboxed, needs_judge, judge = "lamps", 5, True, False, None
    url = "http://127.0.0.1"  # until it is open

    def __init__(self, colours: Sequence[str]) -> None:
        self.colours = colours

    async def page(self, request: Request) -> HTMLResponse:
        return HTMLResponse("".join(f"<p><a href=/lamp/{colour}>{colour} lamp</a>" for colour in self.colours))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        app = Starlette(routes=[Route("/{path:path}", self.page)])
        async with bq.open_site(app, evaluate) as (self.url, make_env):
            yield make_env

    async def tasks(self, split: str) -> Sequence[bq.Task]:
        where = {"suite": self.name, "start_url": self.url, "allowed_hosts": [urlsplit(self.url).netloc]}
        return [bq.Task(id=one, goal=f"Open the {one} lamp", split=split, **where) for one in self.colours]


def make_suite(settings: Mapping[str, object]) -> bq.Suite:
    return Lamps(str(settings.get("colours", COLOURS)).split(","))
