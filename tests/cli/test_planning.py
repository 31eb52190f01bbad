"""What `--dry-run` says that episodes will use, and what it looks at before the first call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bestofq.cli.doctor import Finding
from bestofq.cli.planning import assume_search, assume_usage, preflight
from bestofq.config.agents import AgentKind
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import make_suite
from bestofq.models.chat import ChatConfig
from bestofq.testing.fault_server import FaultServer


def at(base_url: str, model: str = "qwen2.5-vl-7b") -> ChatConfig:
    prices = {"usd_in": 0.15, "usd_out": 0.6}
    return ChatConfig(model=model, base_url=base_url, key_variable="NO_SUCH_KEY", **prices)


def settings(**chosen: object) -> BestOfQSettings:
    roles = {role: chosen.pop(role) for role in ("judge", "picker_chat") if role in chosen}
    return BestOfQSettings.model_validate({"endpoints": {"chat": at("http://127.0.0.1:9/v1"), **roles}, **chosen})


LOCAL = {"model": "gpt-4.1", "base_url": "local"}
LIVE, COMPOSITE = {"name": "webvoyager"}, {"dialect": "composite"}
EMBEDDED: dict[str, Any] = {
    "value": "network",
    "suite": LIVE,
    "model": {"embedder": "gpt-4.1", "embed": {"state": "history"}},
}
PICTURE = 1288 * 728 // 784  # tokens of a screenshot in multiples of 28 pixels
PAGE, PROMPT = 800 + 5000, 800 + 1000  # of a live page, and of a page in text
PROPOSED = {"proposer": (20 * (PAGE + PICTURE), 20 * 300, 20)}


@pytest.mark.parametrize(
    ("chosen", "kind", "n", "used"),
    [
        (EMBEDDED, "best-of-q", None, PROPOSED | {"embedder": (20 * (800 + 1280 * 720 // 784 + 300), 0, 20)}),
        (  # a localizer sees a picture a step; a picker in this process sees nothing
            {"suite": LIVE, "by": "words", "localizer": "vision", "picker_chat": LOCAL},
            "picker",
            None,
            PROPOSED | {"localizer": (20 * (150 + PICTURE), 20 * 20, 20), "critic": (20 * (PAGE + 300), 20 * 100, 20)},
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
    usage = assume_usage(settings(**chosen), kind, 30, judged="judge" in used, n=n)
    counts = {role: (one.tokens_in, one.tokens_out, one.calls) for role, one in usage.items()}
    assert {role: counts[role] for role in used} == used


def test_a_price_is_the_sum_of_those_that_are_known() -> None:
    usage = assume_usage(settings(**EMBEDDED), "best-of-q", 30, judged=True)
    assert sum(one.usd for one in usage.values()) == pytest.approx((139_920 * 0.15 + 6000 * 0.6 + 45_500 * 2) / 1e6)
    for judge in ({"model": "some-judge"}, LOCAL):
        usage = assume_usage(settings(judge=judge), "prompting", 10, judged=True)
        assert [one.unpriced > 0 for one in usage.values()] == [False, True]
    assert assume_usage(BestOfQSettings(), "prompting", 10, judged=False) == {}  # a model in this process


def test_a_search_before_each_step_costs_a_tree_a_step() -> None:
    searched = {"iterations": 4, "candidates": 2}
    chosen = settings(model={"dialect": "composite"}, agent_q={"search": searched})
    tree, played = assume_search(chosen, 30), assume_usage(chosen, "mcts", 30, judged=False)
    assert played == {role: one * 20 for role, one in tree.items()}
    assert [one.calls for one in tree.values()] == [4 * (2 + 20), 4]


async def looked(chosen: BestOfQSettings) -> list[Finding]:
    return await preflight(Models(chosen), make_suite(chosen.suite), learns=True)


@asynccontextmanager
async def answering(status: int) -> AsyncIterator[str]:
    """An endpoint that answers so when it is asked for its models."""

    async def models(_: Request) -> JSONResponse:
        alone = {"id": "/models/some.gguf", "owned_by": "llamacpp"}  # serves it by any name
        return JSONResponse({"error": {"message": "no"}, "data": [alone]}, status)

    async with serve_app(Starlette(routes=[Route("/v1/models", models)])) as root:
        yield f"{root}/v1"


@pytest.mark.parametrize(("status", "well"), [(404, True), (200, True), (401, False), (500, False)])
async def test_an_endpoint_need_not_list_its_models_but_must_answer(status: int, well: bool) -> None:
    async with answering(status) as url:
        (row,) = await looked(BestOfQSettings(endpoints={"chat": at(url)}))
    assert row.ok == well
    assert well or "NO_SUCH_KEY" in row.fix


async def test_a_model_that_is_not_listed_is_named_with_one_that_is() -> None:
    """It may be listed by a longer name, as by Gemini's endpoint and Ollama."""
    (nobody,) = await looked(settings())
    assert "endpoints.chat.base_url" in nobody.fix
    for listed, model, fix in (
        ("a", "c", "--set endpoints.chat.model=a"),
        ("b", "b", ""),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", ""),
        ("gemini-2.5-pro:latest", "gemini-2.5-pro", ""),
    ):
        async with FaultServer(lambda _: "", models=(listed, "z")) as server:
            (row,) = await looked(BestOfQSettings(endpoints={"chat": at(server.base_url, model)}))
        assert (row.fix, server.requests) == (fix, [])


async def test_without_a_judge_live_episodes_would_teach_nothing() -> None:
    found = await looked(BestOfQSettings.model_validate({"suite": {"name": "webvoyager", "data": "x"}}))
    judge = next(one for one in found if one.what == "judge")
    assert judge.required
    assert "endpoints.judge.model" in judge.fix
