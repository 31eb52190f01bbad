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

from bestofq.build.settings import BestOfQSettings
from bestofq.cli.config import load_config
from bestofq.core.actions import Answer, Click
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Split
from bestofq.core.protocols import Suite
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import SUITES, make_suite

pytestmark = pytest.mark.asyncio(loop_scope="session")
ROOT = Path(__file__).parents[2]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
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
    assert set(SUITES) == set(SETTINGS) - {OWN}


async def test_it_says_what_it_is(suite: Suite) -> None:
    assert isinstance(suite, Suite)
    assert suite.name
    assert suite.step_limit >= 1
    assert not (suite.judge and not suite.needs_judge)


async def test_its_tasks_are_of_their_split_and_the_same_each_time_it_opens(suite: Suite) -> None:
    async with suite.open():
        found = {split: await suite.tasks(split) for split in SPLITS}
    async with suite.open() as make_env:
        again = await suite.tasks("test")
        env = await make_env()
        assert (await env.reset((await suite.tasks("dev"))[0], seed=0)).error is None
        await env.close()
    assert [task.id for task in again] == [task.id for task in found["test"]]
    for split, tasks in found.items():
        assert len({task.id for task in tasks}) == len(tasks) > 0
        assert {(task.split, task.suite) for task in tasks} == {(split, suite.name)}
    if suite.name != "lamps":  # whose three splits are one
        names = [task.id for tasks in found.values() for task in tasks]
        assert len(set(names)) == len(names)


async def test_its_environments_play_its_tasks_side_by_side(suite: Suite) -> None:
    async with suite.open() as make_env:
        first, second = (await suite.tasks("test"))[:2]
        one, other = await make_env(), await make_env()
        begun = [await one.reset(first, seed=0), await other.reset(second, seed=0)]
        acted = await one.step(Click(mark=len(begun[0].elements) + 1))
        ended = [await env.step(Answer(text="done")) for env in (one, other)]
        await one.close()
        await other.close()
    assert [seen.error for seen in begun] == [None, None]
    assert acted.observation.error
    for result in (acted, *ended):
        assert (result.reward is None) == suite.needs_judge
    assert all(result.terminated for result in ended) or suite.name == "lamps"


@pytest.mark.parametrize(
    ("name", "code", "wrong"),
    [
        ("nowhere:make", None, "nowhere"),
        ("broken:make", "1 / 0", "ZeroDivisionError"),
        ("empty:make", "", "'make'"),
        ("table:make", "make = 7", "7"),
        ("half:make", "class make:\n    name = 'half'\n    def __init__(self, settings): pass", "step_limit"),
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
