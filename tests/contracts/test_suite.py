"""What every suite keeps to, one of a user's own among them, each made as the command line makes it."""

import json
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.cli.config import load_config
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.core.protocols import Suite
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import KINDS, make_suite
from bestofq.testing.contracts import check_suite

pytestmark = pytest.mark.asyncio(loop_scope="session")
ROOT = Path(__file__).parents[2]
OWN = "examples.own_suite:make_suite"
SETTINGS = {
    "webshop": [],
    "booking": ["suite.env=browser"],
    "quirks": ["suite.env=browser"],
    "miniwob": ["suite.only=click-link,click-test", "suite.per_task=2"],
    "webvoyager": ["suite.holdout=true"],
    OWN: ["suite.colours=red,blue"],
}


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse("<title>Page</title><a href=/next>next</a>")


@pytest_asyncio.fixture(params=SETTINGS, loop_scope="session")
async def suite(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Suite]:
    monkeypatch.chdir(ROOT)
    if request.param == "miniwob" and find_spec("miniwob") is None:
        pytest.skip("MiniWoB++'s pages are not installed")
    async with serve_app(Starlette(routes=[Route("/{path:path}", page)])) as url:
        file = tmp_path / "tasks.jsonl"
        lines = ({"web_name": "Site", "id": str(n), "ques": f"Find page {n}", "web": f"{url}/"} for n in range(30))
        file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
        given = [f"suite.name={request.param}", *SETTINGS[request.param]]
        given += [f"suite.data={file}", "suite.allow=['127.0.0.1']"] if request.param == "webvoyager" else []
        yield make_suite(load_config(BestOfQSettings, None, given).suite)


async def test_every_suite_is_tried() -> None:
    assert set(KINDS) == set(SETTINGS) - {OWN}


async def test_it_keeps_to_the_contract(suite: Suite) -> None:
    await check_suite(suite, disjoint=suite.name != "lamps")  # whose three splits are one


@pytest.mark.parametrize(
    ("name", "code", "wrong"),
    [
        ("nowhere:make", None, "nowhere"),
        ("broken:make", "1 / 0", "ZeroDivisionError"),
        ("empty:make", "", "'make'"),
        ("table:make", "make = 7", "7"),
        ("half:make", "class make:\n    name = 'half'\n    def __init__(self, settings): pass", "protocols.Suite"),
        (
            "typed:make",
            "import pydantic\nclass make(pydantic.BaseModel):\n    rooms: int\n"
            "    def __init__(self, settings): super().__init__(**settings)",
            "suite.rooms",
        ),
    ],
)
async def test_what_is_no_suite_is_refused_by_name(
    name: str, code: str | None, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if code is not None:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(code, "utf-8")
    settings = load_config(BestOfQSettings, None, [f"suite.name={name}", "suite.rooms=many"]).suite
    with pytest.raises(ConfigError) as refused:
        make_suite(settings)
    assert name in str(refused.value)
    assert wrong in str(refused.value)
