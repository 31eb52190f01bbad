"""How well candidates are ranked, by an oracle: counted by hand, and of stored episodes of the shop."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Refresh
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import InputError
from bestofq.envs.suites import make_suite
from bestofq.recipes.collect import Play, compare
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.contracts import check_learner, two_steps
from bestofq_sites.booking.settings import BookingSettings
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.local_site.text import TextEnv, at_once
from experiments import learners
from experiments.__main__ import app
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
    assert (item.steps, item.proposed, item.contested) == (4, 3 / 4, 2)
    assert (item.chosen, item.first, item.chance) == pytest.approx((2 / 3, 2 / 3, (1 / 3 + 1 / 2 + 1) / 3))
    assert (item.contested_chosen, item.contested_first) == (1 / 2, 1 / 2)
    assert item.contested_chance == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (rows["start"].proposed, rows["start"].chosen, rows["start"].contested_chosen) == (0, None, None)
    assert (rows["all"].steps, rows["all"].proposed) == (5, 3 / 5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on two test tasks of the shop, with the shipped pocket model."""
    folder = tmp_path_factory.mktemp("evaluated")

    async def play() -> None:
        models = Models(BestOfQSettings())
        async with open_suite(models) as suite:
            with Store.open(folder) as opened:
                await compare(models, suite, opened, "eval", Play(split="test", limit=2), ["prompting", "random"])

    asyncio.run(play())
    return folder


@pytest.mark.slow
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


def test_returns_by_hand() -> None:
    data = two_steps()
    np.testing.assert_allclose(learners.returns(data, 0.9)[:4], [0.9, 1.0, 0.0, 0.0], rtol=1e-6)
    assert data.ends[:4].tolist() == [1, 1, 3, 3]


def test_returns_keep_to_a_learner_s_contract() -> None:
    check_learner(learners.monte_carlo)
