"""Elements described in words, found by a model over real HTTP on loopback."""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from broken_server import BrokenServer
from PIL import Image

from bestofq.agents.localizers import VisionLocalizer
from bestofq.core.errors import ConfigError, ContextError
from bestofq.core.observation import Observation, Point, Screenshot
from bestofq.models.chat import ChatConfig, ChatModel


def screenshot() -> Screenshot:
    """Of a 1280 x 720 page, two pixels per CSS pixel."""
    kept = io.BytesIO()
    Image.new("RGB", (2560, 1440), "white").save(kept, "JPEG")
    shot = {"media_type": "image/jpeg", "width": 2560, "height": 1440, "scale": 2.0, "data": kept.getvalue()}
    return Screenshot(sha256=hashlib.sha256(kept.getvalue()).hexdigest(), **shot)


SEEN = Observation(url="", title="", text="", elements=(), screenshot=screenshot())


def localizer(server: BrokenServer, **settings: Any) -> VisionLocalizer:
    config = {"model": "Holo1.5-7B", "pixels_most": 1_000_000, "usd_in": 1.0, "usd_out": 2.0, **settings}
    return VisionLocalizer(ChatModel(ChatConfig(base_url=server.base_url, **config)))


def size(request: Mapping[str, Any]) -> tuple[int, int]:
    """Of the picture in a request."""
    url = request["messages"][0]["content"][1]["image_url"]["url"]
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as found:
        return found.size


async def test_a_click_on_the_sent_picture_is_a_point_of_the_page() -> None:
    async with (
        BrokenServer(lambda _: '{"x": 658, "y": 364}') as server,
        localizer(server, max_tokens=3000).model as model,
    ):
        found = await VisionLocalizer(model).locate(SEEN, "the blue mug")
    assert found.point == Point(640, 360)
    assert [(u.role, u.calls, u.tokens_in, u.usd) for u in found.usage] == [("localizer", 1, 100, 140 / 1e6)]
    (request,) = server.requests
    assert size(request) == (1316, 728)
    said = request["messages"][0]["content"][0]["text"]
    assert "the blue mug" in said
    assert "1316 wide and 728 high" in said
    assert (request["temperature"], request["response_format"]["json_schema"]["name"]) == (0.0, "click")
    assert request["max_tokens"] == 3000  # what a model thinks counts, too


async def test_thousandths_where_the_model_answers_in_them() -> None:
    async with BrokenServer(lambda _: '{"x": 500, "y": 250}') as server:
        asked = localizer(server, model="Qwen3-VL-8B")
        found = await asked.locate(SEEN, "the blue mug")
        await asked.model.close()
    assert found.point == Point(640, 180)
    assert "from 0 to 1000" in server.requests[0]["messages"][0]["content"][0]["text"]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("at the top", "no JSON object"),
        ('{"x": 9000, "y": 3}', r"the point (9000, 3) is outside the picture"),
        ('{"x": "left", "y": 3}', "both numbers"),
        ("", "the reply was empty"),
    ],
)
async def test_garbage_gets_one_repair_turn_then_is_refused_and_counted(reply: str, problem: str) -> None:
    replies = iter([reply, '{"x": 10, "y": 10}', reply, reply])
    async with BrokenServer(lambda _: next(replies)) as server, localizer(server).model as model:
        mended = await VisionLocalizer(model).locate(SEEN, "the mug")
        refused = await VisionLocalizer(model).locate(SEEN, "the mug")
    assert mended.point is not None
    assert problem in server.requests[1]["messages"][2]["content"]
    assert refused.point is None
    assert refused.refusal.startswith('"the mug" was not found on the screenshot: ')
    assert problem in refused.refusal
    assert [(u.calls, u.tokens_out) for u in (*mended.usage, *refused.usage)] == [(2, 40), (2, 40)]


async def test_too_large_a_picture_is_halved_and_never_sent_again() -> None:
    def reply(request: Mapping[str, Any]) -> str:
        width, height = size(request)
        return json.dumps({"x": width // 2, "y": height // 2})

    async with BrokenServer(reply, script=["overflow"]) as server, localizer(server).model as model:
        found = await VisionLocalizer(model).locate(SEEN, "the mug")
    assert found.point == Point(640, 360)
    areas = [width * height for width, height in map(size, server.requests)]
    assert areas[1] <= areas[0] / 2
    async with BrokenServer(reply, takes=0) as server, localizer(server).model as model:
        with pytest.raises(ContextError):
            await VisionLocalizer(model).locate(SEEN, "the mug")
    assert len({size(request) for request in server.requests}) == len(server.requests) == 3


async def test_without_screenshots_the_setting_is_named() -> None:
    blind = SEEN.model_copy(update={"screenshot": None})
    async with BrokenServer(lambda _: "") as server, localizer(server).model as model:
        with pytest.raises(ConfigError, match=r"suite\.screenshots=true"):
            await VisionLocalizer(model).locate(blind, "the mug")
