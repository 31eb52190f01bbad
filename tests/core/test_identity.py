"""Which actions are the same, and which draws."""

import sys

import numpy as np
import pytest

from bestofq.core.actions import Action, Answer, Click, Write, identity
from bestofq.core.decision import Candidate, State, distinct
from bestofq.core.errors import SetupError
from bestofq.core.loading import extra
from bestofq.core.observation import Observation, Point, Task
from bestofq.core.seeds import episode_seed, step_seed


def test_two_buttons_with_the_same_words_are_two_actions() -> None:
    words = "click button Add to cart"
    first, second, again = (Candidate(action=Click(mark=mark), label=words) for mark in (3, 8, 3))
    assert distinct([first, second, again]) == (first.model_copy(update={"votes": 2}), second)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Click(target="the cart"), Click(target="the cart", point=Point(4, 5)), True),
        (Click(target="the cart"), Click(target="the cart", refusal="not found"), True),
        (Click(target="the cart"), Click(target="the basket", point=Point(4, 5)), False),
        (Click(point=Point(1, 2)), Click(point=Point(4, 5)), False),
        (Write(mark=1, text="mug"), Write(mark=1, text="mug", enter=True), False),
        (Answer(text="4"), Answer(text="4"), True),
    ],
)
def test_what_a_localizer_adds_makes_no_other_action(one: Action, other: Action, same: bool) -> None:
    assert (identity(one) == identity(other)) is same


def task(name: str, suite: str = "s") -> Task:
    return Task(id=name, suite=suite, goal="g", start_url="http://s/", seed=7)


def test_seeds_differ_by_all_they_are_made_of() -> None:
    seeds = {
        episode_seed(seed, run, agent, task(name, suite), repeat)
        for seed in (0, 1)
        for run in ("cycle-1", "cycle-2", "eval")
        for agent in ("best-of-q", "picker")
        for suite in ("s", "t")
        for name in ("a", "b")
        for repeat in (0, 1)
    }
    assert len(seeds) == 96
    steps = {step_seed(seed, step) for seed in seeds for step in range(30)}
    assert len(steps) == 96 * 30
    assert all(np.iinfo(np.int64).max >= seed >= 0 for seed in seeds | steps)


def test_a_state_draws_from_its_episode_and_step() -> None:
    page = Observation(url="http://s/", title="", text="", elements=())
    assert State(task=task("a"), observation=page, seed=5).step_seed == step_seed(5, 0)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"peft is not installed; install it with `pip install 'bestofq\[agentq\]'`"):
        extra("peft")


def test_a_module_of_a_package_is_found() -> None:
    assert extra("pyarrow.parquet").__name__ == "pyarrow.parquet"
