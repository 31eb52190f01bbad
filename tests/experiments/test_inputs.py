"""Dearer inputs of Q: attention over tokens, the proposer's own numbers."""

import io

import numpy as np
import torch
from rich.console import Console

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate
from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig
from experiments.attention import AXES, AttentionValue, Half, Lesson, learn, packed
from experiments.prior_inputs import prior_of, with_priors


def words(rng: np.random.Generator, count: int) -> Half:
    return rng.normal(size=(count, 2 * AXES)).astype(np.float16)


def bandit(count: int = 64) -> Transitions:
    """One page and goal, items 0 and 1; item 2 is the action that succeeds, item 3 the one that fails."""
    actions = np.arange(count) % 2 + 2
    return Transitions(
        vectors=np.zeros((4, 0), np.float32),
        state=np.zeros(count, np.int64),
        task=np.ones(count, np.int64),
        action=actions,
        next_state=np.zeros(count, np.int64),
        reward=(actions == 2).astype(np.float32),
        terminal=np.ones(count, np.bool_),
    )


def test_padding_changes_no_value() -> None:
    rng = np.random.default_rng(0)
    short, long, goal = words(rng, 2), words(rng, 9), words(rng, 3)
    torch.manual_seed(0)
    value = AttentionValue().eval()
    alone = torch.cat([value(packed([one]), packed([goal])) for one in (short, long)])
    torch.testing.assert_close(value(packed([short, long]), packed([goal, goal])), alone, rtol=1e-4, atol=1e-5)


def test_attention_learns_which_of_two_actions_succeeds() -> None:
    rng = np.random.default_rng(1)
    states = [words(rng, count) for count in (6, 3, 2, 2)]
    lesson = Lesson(bandit(), states, [], torch.zeros(64, 2))
    found = learn(lesson, IQLConfig(steps=40, batch_size=32), Console(file=io.StringIO()))
    page, goal = packed([states[0]] * 2), packed([states[1]] * 2)
    right, wrong = found.q(page, goal, packed([states[2], states[3]])).tolist()
    assert right > 0.6
    assert wrong < 0.4


def test_a_step_s_action_has_its_own_prior_behind_it() -> None:
    candidates = [Candidate(action=Click(mark=mark), label="", log_prob=-float(mark)) for mark in (1, 2)]
    assert (prior_of(candidates, 0), prior_of(candidates, 1)) == ((-0.1, 1.0), (-0.2, 0.0))
    data = bandit(2)
    found = with_priors(data, np.array([[-0.1, 1], [-0.2, 0]], np.float32))
    np.testing.assert_array_equal(found.vectors[found.action], [[np.float32(-0.1), 1], [np.float32(-0.2), 0]])
    np.testing.assert_array_equal(found.vectors[found.state], np.zeros((2, 2)))
