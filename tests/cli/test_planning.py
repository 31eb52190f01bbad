"""What `--dry-run` says that episodes will use, and what it looks at before the first call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.doctor import Finding
from bestofq.cli.planning import assume_tree, assume_use, preflight
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


def settings(**given: object) -> BestOfQSettings:
    chat, roles = at("http://127.0.0.1:9/v1"), ("judge", "picker_chat")
    endpoints = {"chat": chat, **{role: given.pop(role) for role in roles if role in given}}
    return BestOfQSettings.model_validate({"endpoints": endpoints, **given})


def test_an_episode_is_assumed_by_hand_arithmetic() -> None:
    chosen = settings(suite={"name": "webvoyager"}, model={"embedder": "gpt-4.1", "embed": {"state": "history"}})
    use = assume_use(chosen, "best-of-q", 30, judged=True)
    assert use is not None
    assert {one.role: (one.tokens_in, one.tokens_out) for one in use.usage} == {
        "proposer": (20 * (800 + 5000 + 1288 * 728 // 784), 20 * 300),  # the picture in multiples of 28
        "embedder": (20 * (800 + 1280 * 720 // 784 + 300), 0),
    }
    assert use.usd == pytest.approx((139_920 * 0.15 + 6000 * 0.6 + 45_500 * 2) / 1e6)
    assert (use.steps, use.seconds) == (20, 200.0)


def test_a_price_that_nobody_knows_is_left_out_and_said() -> None:
    chosen = settings(judge=ChatConfig(model="some-judge"))
    use = assume_use(chosen, "prompting", 10, judged=True)
    assert use is not None
    assert use.usd > 0
    assert not use.priced


def test_each_review_reads_the_page_and_a_judge_in_this_process_has_no_price() -> None:
    local = ChatConfig(model="gpt-4.1", base_url="local")
    use = assume_use(settings(judge=local, suite={"name": "webvoyager"}), "verifier", 30, judged=True)
    assert use is not None
    read = {one.role: (one.tokens_in, one.calls, one.usd) for one in use.usage}
    assert read["critic"][:2] == (60 * (800 + 5000 + 1288 * 728 // 784 + 100), 60)
    assert read["judge"] == (800, 1, None)


def test_a_localizer_that_reads_texts_costs_a_page_a_step_and_a_picker_in_this_process_sees_nothing() -> None:
    local = ChatConfig(model="my-3B", base_url="local")
    chosen = settings(suite={"name": "webvoyager"}, by="words", localizer="page+text", picker_chat=local)
    use = assume_use(chosen, "picker", 30, judged=True)
    assert use is not None
    assert {one.role: (one.tokens_in, one.tokens_out, one.calls) for one in use.usage if one.role != "proposer"} == {
        "localizer": (20 * (800 + 5000), 20 * 20, 20),
        "critic": (20 * (800 + 5000 + 300), 20 * 100, 20),
    }


def test_candidates_that_are_replies_of_their_own_read_the_prompt_twice() -> None:
    composite = settings(model={"dialect": "composite"})
    for chosen, kind, n, reads in (
        (composite, "random", None, 2),
        (settings(), "prior", 8, 2),
        (composite, "vote", 1, 1),
    ):
        use = assume_use(chosen, kind, 30, judged=False, n=n)
        assert use is not None
        proposed = use.usage[0]
        assert (proposed.tokens_in, proposed.tokens_out) == (20 * reads * (800 + 1000), 20 * (n or 3) * 100)


def test_a_search_before_each_step_costs_a_tree_a_step() -> None:
    searched = {"iterations": 4, "candidates": 2}
    chosen = settings(model={"dialect": "composite"}, agent_q={"search": searched})
    tree, played = assume_tree(chosen, 30), assume_use(chosen, "mcts", 30, judged=False)
    assert tree is not None
    assert played is not None
    assert played.tokens == pytest.approx([20 * amount for amount in tree.tokens])
    assert (played.usd, played.seconds, played.steps) == pytest.approx((20 * tree.usd, 20 * tree.seconds, 20))


def test_nothing_is_assumed_of_a_model_in_this_process() -> None:
    assert assume_use(BestOfQSettings(), "prompting", 10, judged=False) is None


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
        (found,) = await looked(BestOfQSettings(endpoints={"chat": at(url)}), tmp_path)
    assert found.ok == well
    assert well or "NO_SUCH_KEY" in found.fix


async def test_nobody_at_the_address_is_found_out(tmp_path: Path) -> None:
    (found,) = await looked(settings(), tmp_path)
    assert "endpoints.chat.base_url" in found.fix


async def test_a_model_that_is_not_listed_is_named_with_one_that_is(tmp_path: Path) -> None:
    async with FaultServer(lambda _: "", models=("a", "b")) as server:
        (found,) = await looked(BestOfQSettings(endpoints={"chat": at(server.base_url, "c")}), tmp_path)
        (well,) = await looked(BestOfQSettings(endpoints={"chat": at(server.base_url, "b")}), tmp_path)
    assert found.fix == "--set endpoints.chat.model=a"
    assert well.ok
    assert not server.requests


@pytest.mark.parametrize("listed", ["models/gemini-2.5-pro", "gemini-2.5-pro:latest"])
async def test_a_model_may_be_listed_by_a_longer_name(listed: str, tmp_path: Path) -> None:
    """As Gemini's endpoint lists its models, and Ollama."""
    async with FaultServer(lambda _: "", models=("a", listed)) as server:
        (found,) = await looked(BestOfQSettings(endpoints={"chat": at(server.base_url, "gemini-2.5-pro")}), tmp_path)
    assert found.ok


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
