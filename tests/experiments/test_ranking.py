"""How well candidates are ranked, by an oracle: counted by hand, and of stored episodes of the shop."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Click, Refresh
from bestofq.core.decision import Candidate, Decision, Provenance, State, Step, Verdict
from bestofq.core.errors import InputError
from bestofq.core.observation import Observation, Task
from bestofq.envs.suites import make_suite
from bestofq.models.chat import ChatModel
from bestofq.recipes.collect import Play, compare
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq_sites.booking.settings import BookingSettings
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.local_site.text import TextEnv, at_once
from bestofq_sites.webshop.settings import WebShopSettings
from experiments.__main__ import app
from experiments.golden import GoldenMatcher, golden_findings
from experiments.oracles.booking import BookingOracle
from experiments.ranking import OracleStep, by_kind, judge_of

T, U = ("shop", "t"), ("shop", "u")


def test_shares_of_right_choices_by_hand() -> None:
    rows = by_kind(
        [
            OracleStep("item", T, (True, False, False), 0),  # the first right, a third by chance
            OracleStep("item", T, (False, True), 0),  # lost, half by chance
            OracleStep("item", U, (True, True), 1),  # nothing to lose
            OracleStep("item", U, (False,), 0),  # none proposed
            OracleStep("start", U, (False, False), 0),
        ]
    )
    item = rows["item"]
    assert list(rows) == ["all", "item", "start"]
    of_all = {"steps": 4, "proposed": 3 / 4, "chosen": 2 / 3, "first": 2 / 3, "chance": (1 / 3 + 1 / 2 + 1) / 3}
    contested = {"contested": 2, "contested_chosen": 1 / 2, "contested_first": 1 / 2}
    assert item == pytest.approx(of_all | contested | {"contested_chance": (1 / 3 + 1 / 2) / 2})
    start = rows["start"]
    assert (start["proposed"], start["chosen"], start["contested_chosen"]) == (0, None, None)
    assert (rows["all"]["steps"], rows["all"]["proposed"]) == (5, 3 / 5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on two test tasks of the shop, with the shipped pocket model."""
    folder = tmp_path_factory.mktemp("evaluated")

    async def play() -> None:
        models = Models(BestOfQSettings(suite=WebShopSettings(step_limit=5)))
        async with open_suite(models) as suite:
            with Store.open(folder) as opened:
                await compare(models, suite, opened, "eval", Play(split="test", limit=2), ["prompting", "random"])

    asyncio.run(play())
    return folder


def test_the_command_counts_every_step_of_each_agent_and_writes_the_folder(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_width", 250)
    words = ["rank", "--store", str(store), "--html", str(tmp_path / "page")]
    said = CliRunner().invoke(app, words, catch_exceptions=False).output
    with Store.open(store, read_only=True) as opened:
        for agent in ("prompting", "random"):
            steps = sum(episode.steps for episode in opened.summaries(run="eval", agent=agent))
            shares = said.partition(f"{agent}: shares of steps")[2].splitlines()[:9]
            (line,) = (line for line in shares if line.startswith("all "))
            assert f" {steps} " in line
    assert "Rated by the suite's oracle" in said
    assert "Rated by an oracle" in (tmp_path / "page" / "tables" / "recall.md").read_text("utf-8")
    one = CliRunner().invoke(app, [*words[:3], "--agent", "random"], catch_exceptions=False).output
    assert "random: shares of steps" in one
    assert "prompting" not in one


def test_a_suite_without_an_oracle_is_refused(store: Path) -> None:
    words = ["rank", "--store", str(store), "--set", "suite.name=examples.own_suite:make_suite"]
    with pytest.raises(InputError, match="own_suite"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_on_bookings_what_the_oracle_does_is_right_on_every_page() -> None:
    suite = make_suite(BookingSettings())
    assert isinstance(suite, LocalSuite)
    judge, env, task = judge_of(suite), TextEnv(suite.rules), suite.rules.tasks("test")[0]
    assert isinstance(suite.rules, Booking)
    oracle, seen, kinds = BookingOracle(suite.rules, task.id), at_once(env.reset(task, seed=0)), list[str]()
    while not suite.rules.is_over(env.visit):
        actions = oracle.advise(env, seen).action, Refresh()
        judged = judge(State(task=task, observation=seen), [Candidate(action=one, label="") for one in actions])
        assert judged.right == [True, False]
        kinds.append(judged.kind)
        seen = at_once(env.step(actions[0])).observation
    assert {"restaurant", "calendar", "times", "details"} < set(kinds)


def step(index: int, page: str, *labels: str, chosen: int = 0) -> Step:
    candidates = tuple(
        Candidate(action=Click(mark=n + 1), label=label, thought=f"why {label}", note=f"note {label}")
        for n, label in enumerate(labels)
    )
    seen = Observation(url=f"http://soup.example/{page}", title="Soups", text=page, elements=())
    decision = Decision(candidates=candidates, scores=(0.0,) * len(labels), chosen=chosen)
    return Step(index=index, observation=seen, decision=decision)


async def record(golden_store: Store, agent: str, task: str, outcome: str, *steps: Step, run: str = "eval") -> str:
    what = Task(id=task, suite="soups", goal=f"Find a soup for {task}", start_url="http://soup.example/")
    episode = await golden_store.begin_episode(run, agent, what, 0, Provenance(version="test"))
    for one in steps:
        await golden_store.append_step(episode, one)
    verdict = Verdict.model_validate({"reward": float(outcome == "success"), "outcome": outcome})
    await golden_store.finish_episode(episode, verdict, None)
    return episode


@pytest.fixture
async def golden_store(tmp_path: Path) -> AsyncIterator[Store]:
    """A strong agent solves one task in three steps; a weak one fails at it, and at one that nobody solved."""
    with Store.open(tmp_path / "store") as golden_store:
        await golden_store.begin_run("eval", {}, Provenance(version="test"))
        await record(golden_store, "slow", "one", "success", *(step(n, f"s{n}", "wander") for n in range(5)))
        strong = step(0, "home", "search soups"), step(1, "list", "open leek soup"), step(2, "leek", "save recipe")
        await record(golden_store, "strong", "one", "success", *strong)
        weak = (
            step(0, "home", "type soups into search", "open menu", chosen=1),  # meant, not taken
            step(1, "menu", "search soups", "back"),  # another page: the first step not done yet; says the same, taken
            step(2, "results", "open tomato soup", "open beet soup"),  # open leek soup is due: not proposed
            step(3, "leek", "store this recipe", "print"),  # the page of the last golden step: meant and taken
            step(4, "end", "anything"),  # nothing is due any more
        )
        await record(golden_store, "weak", "one", "failure", *weak)
        await record(golden_store, "weak", "two", "failure", step(0, "home", "search"))
        await record(golden_store, "weak", "three", "success", step(0, "home", "search"))
        yield golden_store


def model(server: FaultServer) -> ChatModel:
    return ChatModel.at(server.base_url, "gpt-4.1", attempts=2)


def judge(request: Mapping[str, Any]) -> str:
    """What a model that understands would say."""
    asked = request["messages"][1]["content"]
    means = {"search soups": "type soups into search", "save recipe": "store this recipe"}
    for golden, same in means.items():
        if f"right:\n   {golden}" in asked and f"0. {same}" in asked:
            return json.dumps({"rationale": "alike", "contained": True, "matched_index": 0})
    return json.dumps({"rationale": "nothing like it", "contained": False, "matched_index": None})


async def test_steps_are_held_against_the_golden_one_that_is_due(golden_store: Store) -> None:
    async with FaultServer(judge) as server, model(server) as chat:
        found = await golden_findings(golden_store, GoldenMatcher(model=chat), run="eval", agent="weak")
    assert (found.episodes, found.without_golden, found.unread) == (1, 1, 0)
    assert [(s.step, s.golden, s.good, s.chosen) for s in found.steps] == [
        (0, "search soups", (True, False), 1),
        (1, "search soups", (True, False), 0),
        (2, "open leek soup", (False, False), 0),
        (3, "save recipe", (True, False), 0),
    ]
    assert len(server.requests) == 3  # what says the same is not asked
    asked = server.requests[0]
    assert "Find a soup for one" in asked["messages"][1]["content"]
    assert "why open menu" in asked["messages"][1]["content"]
    assert "note search soups" in asked["messages"][1]["content"]
    assert asked["temperature"] == 0.0
    assert [used.role for used in found.usage] == ["judge"] * 3


@pytest.mark.parametrize("bad", ['{"contained": true, "matched_index": 7}', '{"contained": "no"}', "no idea", "{}"])
async def test_a_reply_that_cannot_be_read_is_repaired_once_then_left_out(golden_store: Store, bad: str) -> None:
    replies = iter([bad, '{"rationale": "r", "contained": false, "matched_index": null}', bad, bad])

    def reply(request: Mapping[str, Any]) -> str:
        return next(replies, judge(request))

    async with FaultServer(reply) as server, model(server) as chat:
        found = await golden_findings(golden_store, GoldenMatcher(model=chat), run="eval", agent="weak")
    assert found.unread == 1
    assert [s.step for s in found.steps] == [0, 1, 3]  # of the third step nothing is known
    assert len(server.requests[1]["messages"]) == 4  # the reply and what was wrong with it
