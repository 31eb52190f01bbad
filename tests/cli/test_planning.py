"""What `--dry-run` says that episodes will use, and what it looks at before the first call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.doctor import Finding
from bestofq.cli.planning import assume_tree, assume_use, preflight
from bestofq.config.agents import AgentKind
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.observation import Observation
from bestofq.core.usage import Usage
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import make_suite
from bestofq.models.chat import ChatConfig
from bestofq.models.checkpoints import room_for
from bestofq.rollouts.console import console
from bestofq.search.tree import MutableTree
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer


def at(base_url: str, model: str = "qwen2.5-vl-7b") -> ChatConfig:
    prices = {"usd_in": 0.15, "usd_out": 0.6}
    return ChatConfig(model=model, base_url=base_url, key_variable="NO_SUCH_KEY", **prices)


def settings(**chosen: object) -> BestOfQSettings:
    roles = {role: chosen.pop(role) for role in ("judge", "picker_chat") if role in chosen}
    return BestOfQSettings.model_validate({"endpoints": {"chat": at("http://127.0.0.1:9/v1"), **roles}, **chosen})


LOCAL = {"model": "gpt-4.1", "base_url": "local"}
LIVE, COMPOSITE = {"name": "webvoyager"}, {"dialect": "composite"}
EMBEDDED: dict[str, Any] = {"suite": LIVE, "model": {"embedder": "gpt-4.1", "embed": {"state": "history"}}}
PICTURE = 1288 * 728 // 784  # tokens of a screenshot in multiples of 28 pixels
PAGE, PROMPT = 800 + 5000, 800 + 1000  # of a live page, and of a page in text
PROPOSED = {"proposer": (20 * (PAGE + PICTURE), 20 * 300, 20)}


@pytest.mark.parametrize(
    ("chosen", "kind", "n", "used"),
    [
        (
            EMBEDDED,
            "best-of-q",
            None,
            PROPOSED | {"embedder": (20 * (800 + 1280 * 720 // 784 + 300), 0, 20)},
        ),
        (  # a localizer that reads texts costs a page a step; a picker in this process sees nothing
            {"suite": LIVE, "by": "words", "localizer": "page+text", "picker_chat": LOCAL},
            "picker",
            None,
            PROPOSED | {"localizer": (20 * PAGE, 20 * 20, 20), "critic": (20 * (PAGE + 300), 20 * 100, 20)},
        ),
        (  # each review reads the page
            {"suite": LIVE, "judge": LOCAL},
            "verifier",
            None,
            PROPOSED | {"critic": (60 * (PAGE + PICTURE + 100), 60 * 100, 60), "judge": (800, 100, 1)},
        ),
        # candidates that are replies of their own read the prompt twice
        ({"model": COMPOSITE}, "random", None, {"proposer": (20 * 2 * PROMPT, 20 * 300, 40)}),
        ({}, "prior", 8, {"proposer": (20 * 2 * PROMPT, 20 * 800, 40)}),
        ({"model": COMPOSITE}, "vote", 1, {"proposer": (20 * PROMPT, 20 * 100, 20)}),
    ],
)
def test_an_episode_is_assumed_by_hand_arithmetic(
    chosen: dict[str, Any], kind: AgentKind, n: int | None, used: dict[str, tuple[int, int, int]]
) -> None:
    use = assume_use(settings(**chosen), kind, 30, judged="judge" in used, n=n)
    assert use is not None
    counts = {one.role: (one.tokens_in, one.tokens_out, one.calls) for one in use.usage}
    assert {role: counts[role] for role in used} == used
    assert (use.steps, use.seconds) == (20, 200.0)


def test_a_price_is_the_sum_of_those_that_are_known() -> None:
    use = assume_use(settings(**EMBEDDED), "best-of-q", 30, judged=True)
    assert use is not None
    assert use.usd == pytest.approx((139_920 * 0.15 + 6000 * 0.6 + 45_500 * 2) / 1e6)
    for judge in ({"model": "some-judge"}, LOCAL):
        use = assume_use(settings(judge=judge), "prompting", 10, judged=True)
        assert use is not None
        assert (use.usd > 0, use.priced) == (True, False)
    assert assume_use(BestOfQSettings(), "prompting", 10, judged=False) is None  # a model in this process


def test_a_search_before_each_step_costs_a_tree_a_step() -> None:
    searched = {"iterations": 4, "candidates": 2}
    chosen = settings(model={"dialect": "composite"}, agent_q={"search": searched})
    tree, played = assume_tree(chosen, 30), assume_use(chosen, "mcts", 30, judged=False)
    assert tree is not None
    assert played is not None
    assert played.tokens == pytest.approx([20 * amount for amount in tree.tokens])
    assert (played.usd, played.seconds, played.steps) == pytest.approx((20 * tree.usd, 20 * tree.seconds, 20))


async def looked(chosen: BestOfQSettings, store: Path, stored: float = 0.0, *, embeds: bool = False) -> list[Finding]:
    models, suite = Models(chosen), make_suite(chosen.suite)
    return await preflight(models, suite, [], Location.of(store), stored=stored, learns=True, embeds=embeds)


@asynccontextmanager
async def answering(status: int) -> AsyncIterator[str]:
    """An endpoint that answers so when it is asked for its models."""

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"error": {"message": "no"}}, status)

    async with serve_app(Starlette(routes=[Route("/v1/models", models)])) as root:
        yield f"{root}/v1"


@pytest.mark.parametrize(("status", "well"), [(404, True), (401, False), (500, False)])
async def test_an_endpoint_need_not_list_its_models_but_must_answer(status: int, well: bool, tmp_path: Path) -> None:
    async with answering(status) as url:
        (row,) = await looked(BestOfQSettings(endpoints={"chat": at(url)}), tmp_path)
    assert row.ok == well
    assert well or "NO_SUCH_KEY" in row.fix


async def test_a_model_that_is_not_listed_is_named_with_one_that_is(tmp_path: Path) -> None:
    """It may be listed by a longer name, as by Gemini's endpoint and Ollama."""
    (nobody,) = await looked(settings(), tmp_path)
    assert "endpoints.chat.base_url" in nobody.fix
    for listed, model, fix in (
        ("a", "c", "--set endpoints.chat.model=a"),
        ("b", "b", ""),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", ""),
        ("gemini-2.5-pro:latest", "gemini-2.5-pro", ""),
    ):
        async with FaultServer(lambda _: "", models=(listed, "z")) as server:
            (row,) = await looked(BestOfQSettings(endpoints={"chat": at(server.base_url, model)}), tmp_path)
        assert (row.fix, server.requests) == (fix, [])


async def test_a_model_of_a_role_that_is_loaded_here_is_weighed_not_called(tmp_path: Path) -> None:
    judge = ChatConfig(model="pocket", base_url="local")
    (found,) = await looked(BestOfQSettings(endpoints={"judge": judge}), tmp_path)
    assert found.ok
    assert "GB" in found.found


async def test_a_disk_that_is_too_small_and_an_embedder_that_is_too_large(tmp_path: Path) -> None:
    chosen = BestOfQSettings.model_validate({"model": {"embedder": "my-900B", "device": "cpu"}})
    disk, embedder = await looked(chosen, tmp_path / "not" / "there", 1e18, embeds=True)
    assert str(tmp_path) in disk.found
    assert not disk.ok
    assert embedder.required
    assert "model.device" in embedder.fix


async def test_without_a_judge_live_episodes_would_teach_nothing(tmp_path: Path) -> None:
    found = await looked(BestOfQSettings.model_validate({"suite": {"name": "webvoyager", "data": "x"}}), tmp_path)
    judge = next(one for one in found if one.what == "judge")
    assert judge.required
    assert "endpoints.judge.model" in judge.fix


def test_weights_are_sized_by_their_files_or_else_by_the_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    assert room_for(str(tmp_path), "cpu").needed == 2000
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert room_for(str(tmp_path), "cpu").needed == 2000
    assert room_for("Qwen/Qwen2.5-VL-3B-Instruct", "cpu").needed == pytest.approx(15e9, rel=0.1)
    assert room_for("nameless", "cpu").needed is None


async def test_trees_of_one_round_tell_what_those_of_the_others_will_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 160)
    chosen = BestOfQSettings.model_validate({"suite": {"name": "booking"}})
    task = (await make_suite(chosen.suite).tasks("train"))[0]
    tree = MutableTree(task, Observation(url="/", title="", text="", elements=()))
    tree.backup([0], 0.0)
    provenance = Provenance(version="1")
    with Store.open(tmp_path) as store:
        await store.begin_run("search-1", {}, provenance)
        used = Usage(role="proposer", tokens_in=1_000_000, tokens_out=500_000, calls=1, seconds=3600.0)
        await store.trees.save("search-1", tree.to_tree([used]))
    words = ["agent-q", "booking", "--rounds", "2", "--tasks", "1", "--set", "agent_q.search.iterations=1"]
    call = [*words, "--store", str(tmp_path), "--dry-run"]
    said = (await asyncio.to_thread(CliRunner().invoke, app, call, catch_exceptions=False)).output
    later = next(line.replace("│", " ").split() for line in said.splitlines() if "search-2" in line)
    assert {"1.0", "0.5"} <= {*later}
