"""Targets of 8 x 8 CSS pixels in Chromium, clicked by points that a model names on a resized screenshot."""

import base64
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from one_room import as_set
from PIL import Image
from starlette.responses import HTMLResponse

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.localizers import VisionLocalizer
from bestofq.agents.proposers import ChatProposer
from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.core.actions import Click
from bestofq.core.decision import State
from bestofq.core.observation import Observation, Task
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.testing.fault_server import FaultServer

pytestmark = pytest.mark.asyncio(loop_scope="session")
WIDTH, HEIGHT = 1281, 723  # odd, so that no factor divides them
TARGETS = {  # left and top edge, CSS pixels
    "alpha": (0, 0),
    "bravo": (1273, 715),
    "charlie": (3, 711),
    "delta": (1271.5, 1.25),
    "echo": (637.3, 357.9),
    "foxtrot": (419, 523),
    "golf": (1011.75, 229.5),
}
PAGE = (
    "<!doctype html><style>body{margin:0;background:#fff;height:3000px}"
    "button{position:absolute;width:8px;height:8px;padding:0;border:0;background:#c00}</style>"
    + "".join(
        f"<button aria-label={name} style='left:{x}px;top:{y + 300}px' onclick='document.title=ariaLabel'></button>"
        for name, (x, y) in TARGETS.items()
    )
    + "<script>scrollTo(0, 300)</script>"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def task() -> AsyncIterator[Task]:
    async with serve_app(HTMLResponse(PAGE)) as root:
        yield Task(id="t", suite="s", goal="click", start_url=f"{root}/", allowed_hosts=(root.removeprefix("http://"),))


@pytest.fixture
def browser(browser: Browser) -> Browser:
    return as_set(browser, BrowserConfig(width=WIDTH, height=HEIGHT))


def sent(request: Mapping[str, Any]) -> Image.Image:
    """The picture of a request."""
    (content,) = (
        m["content"] for m in request["messages"] if m["role"] == "user" and not isinstance(m["content"], str)
    )
    url = content[1]["image_url"]["url"]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def perfect(request: Mapping[str, Any]) -> str:
    """Names the whole pixel nearest to the middle of the target asked for, from the page's own numbers."""
    asked = request["messages"][-1]["content"][0]["text"]
    name = re.search(r"The element: (\w+)", asked)
    left, top = TARGETS[name[1]]
    across, down = (1000, 1000) if "0 to 1000" in asked else sent(request).size
    return json.dumps({"x": round((left + 4) * across / WIDTH), "y": round((top + 4) * down / HEIGHT)})


def red(picture: Image.Image) -> tuple[float, float]:
    """Middle of what is red in it, in its own pixels."""
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    rows, columns = np.nonzero(pixels[..., 0] - pixels[..., 1] > 60)
    return float(columns.mean() + 0.5), float(rows.mean() + 0.5)


async def test_every_target_is_hit_whatever_the_size_sent(task: Task, browser: Browser) -> None:
    async with FaultServer(perfect) as server:
        env = WebEnv(browser, screenshots=True)
        seen = await env.reset(task, seed=0)
        shot = seen.screenshot
        with Image.open(io.BytesIO(shot.data)) as picture:
            assert picture.size == (shot.width, shot.height)
            assert picture.size == (WIDTH, HEIGHT)
        for settings in (
            {"model": "qwen2.5-vl-7b"},
            {"model": "holo1.5-7b", "pixels_most": 400_000},
            {"model": "qwen3-vl-8b", "pixels_most": 250_000},
            {"model": "other", "pixels_most": 60_000},
        ):
            async with ChatModel(ChatConfig(base_url=server.base_url, **settings)) as model:
                for name in TARGETS:
                    found = await VisionLocalizer(model).locate(seen, name)
                    result = await env.step(Click(point=found.point))
                    assert result.observation.title == name, (settings, found.point)
        sizes = [sent(request).size for request in server.requests[:: len(TARGETS)]]
        assert all(side % 28 == 0 for size in sizes[:2] for side in size)
        assert all(width * height < 400_000 for width, height in sizes[1:])
        await env.close()


async def test_the_picture_shows_a_target_where_the_map_says(task: Task, browser: Browser) -> None:
    """The map against the pixels themselves: one target is left on the page, and looked for by its colour."""
    env = WebEnv(browser, screenshots=True)
    await env.reset(task, seed=0)
    model = ChatModel(ChatConfig(model="qwen2.5-vl-7b"))
    for name in ("echo", "bravo"):
        await env.session.evaluate(
            f"document.querySelectorAll('button').forEach(b => b.hidden = b.ariaLabel !== '{name}')"
        )
        shot = (await env.session.snapshot(screenshot=True)).screenshot
        assert shot is not None
        picture = await model.picture(shot)
        with Image.open(io.BytesIO(picture.data)) as found:
            assert found.size == (picture.width, picture.height)
            point = picture.to_css(*red(found))
        left, top = TARGETS[name]
        assert (point.x, point.y) == pytest.approx((left + 4, top + 4), abs=0.6)
    await model.close()
    await env.close()


async def test_points_from_the_proposer_and_words_refused_by_the_localizer(task: Task, browser: Browser) -> None:
    """The agent's whole way: a point on the picture is clicked; what no localizer finds is the next error."""
    offers = iter([{"type": "click", "x": 0, "y": 0}, {"type": "click", "element": "the moon"}])

    def reply(request: Mapping[str, Any]) -> str:
        if "The element:" in json.dumps(request["messages"][0]["content"]):
            return '{"x": 99999, "y": 1}'
        action = next(offers)
        if "x" in action:
            width, height = sent(request).size
            left, top = TARGETS["golf"]
            action |= {"x": round((left + 4) * width / WIDTH), "y": round((top + 4) * height / HEIGHT)}
        return json.dumps({"candidates": [{"thought": "", "note": "", "action": action}]})

    async with (
        FaultServer(reply) as server,
        ChatModel(ChatConfig(model="qwen2.5-vl-7b", base_url=server.base_url)) as model,
    ):
        env = WebEnv(browser, screenshots=True)
        seen = await env.reset(task, seed=0)

        async def turn(seen: Observation, proposer: ChatProposer) -> tuple[Observation, list[tuple[str, int]], str]:
            agent = Agent(name="a", proposer=proposer, localizer=VisionLocalizer(model))
            decision = await agent.decide(State(task=task, observation=seen), np.random.default_rng(0))
            used = [(usage.role, usage.calls) for usage in decision.usage]
            result = await env.step(decision.candidate.action)
            assert not result.terminated
            return result.observation, used, decision.candidate.label

        seen, used, label = await turn(seen, ChatProposer(model, dialect=JsonDialect(by="point"), candidates="list"))
        assert (seen.title, seen.error, used) == ("golf", None, [("proposer", 1)])
        assert label == "click button golf"
        seen, used, _ = await turn(seen, ChatProposer(model, dialect=JsonDialect(by="words"), candidates="list"))
        assert used == [("proposer", 1), ("localizer", 2)]
        assert seen.error.startswith('"the moon" was not found on the screenshot: the point (99999, 1) is outside')
        await env.close()
