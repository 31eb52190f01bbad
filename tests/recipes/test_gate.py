"""The gate: thresholds chosen from small logs, and decisions in front of it."""

from pathlib import Path

import numpy as np
import pytest
from logged_choices import log_of

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.learned import GatedScorer
from bestofq.agents.scorers.memory import MemoryScorer, memory_keys
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import CheckpointError
from bestofq.core.gate import FILE, Gate
from bestofq.core.logged import LoggedChoices
from bestofq.core.observation import Element, Observation, Task
from bestofq.learning.memory import Experience, Memory
from bestofq.reports.estimate import estimate, gate_line, points
from bestofq.reports.gate import calibrate, gate_policy
from bestofq.reports.stats import PairedDifference
from bestofq.store.codec import pack, unpack
from bestofq.testing import ScriptedProposer

SHUT, OPEN = (None,) * 5, (None, None, 0.0, 0.0, 0.0)
PAGE = Observation(
    url="", title="Shop", text="Red [1] Blue [2]",
    elements=(Element(mark=1, role="button", name="Red"), Element(mark=2, role="button", name="Blue")),
)  # fmt: skip
RED, BLUE = (
    Candidate(action=Click(mark=mark), label=f"click button {name}") for mark, name in ((1, "Red"), (2, "Blue"))
)
STATE = State(task=Task(id="t", suite="s", goal="win", start_url=""), observation=PAGE)


def log_of_levels(helps: int, harms: int, *, tasks: int = 20) -> LoggedChoices:
    """Two steps an episode: the best one is right at the first, of level `helps`, and wrong at the second, `harms`."""
    episodes = [
        (f"t{task}", (first, second) == (1, 0), [((0.1, 0.5), first), ((0.1, 0.6), second)])
        for task in range(tasks)
        for first in (0, 1)
        for second in (0, 1)
    ]
    log = log_of(*episodes)
    log.level[0::2], log.level[1::2] = helps, harms
    return log


def test_it_opens_where_leaving_the_first_candidate_helps_and_stays_shut_where_it_harms() -> None:
    log = log_of_levels(3, 2)
    thresholds, _ = calibrate(log, {}, 6)
    assert thresholds[2] is None
    assert thresholds[3] == pytest.approx(0.4, abs=0.001)
    assert thresholds[4] == thresholds[3]  # no held-out step tells more
    choices = gate_policy(log, thresholds).argmax(axis=1)
    assert choices[0::2].tolist() == [1] * 80
    assert choices[1::2].tolist() == [0] * 80


@pytest.mark.parametrize(("groups", "opens"), [((3, 2), True), ((2, 3), False), ((1, 0), True)])
def test_what_held_out_groups_reach_must_help_there_too(groups: tuple[int, int], opens: bool) -> None:
    found = estimate(log_of_levels(3, 2), others={"groups": log_of_levels(*groups)})
    assert (found.thresholds[3] is not None) is opens


@pytest.mark.parametrize(("passes", "opens"), [((4, 2), True), ((2, 4), False), ((3, 2), False)])
def test_held_out_passes_open_the_level_of_known_tasks_alone(passes: tuple[int, int], opens: bool) -> None:
    found = estimate(log_of_levels(2, 3), others={"passes": log_of_levels(*passes)})
    shut = estimate(log_of_levels(2, 3))
    assert found.thresholds[:4] == shut.thresholds[:4]
    assert (found.thresholds[4] is not None) is opens
    assert found.again is not None
    assert found.again.mean > 0.4 or not opens


def test_a_level_stays_shut_if_what_is_known_better_does_not_help() -> None:
    """Leaving the first candidate helps at level 2, and harms as much where more is known, or where less is."""
    assert calibrate(log_of_levels(2, 3), {}, 6)[0] == SHUT
    assert calibrate(log_of_levels(2, 1), {}, 6)[0][2] is not None


def test_what_is_gained_behind_it_is_what_the_open_steps_gain() -> None:
    """Right at the first step, first candidate at the second: each wins in 1 of 2 logs, and 1 of 4 wins at random."""
    found = estimate(log_of_levels(3, 2))
    assert found.gated is not None
    assert found.gated.mean == pytest.approx(0.5)
    assert "opens" in gate_line(found)
    assert points(PairedDifference(mean=1.2, low=0.25, high=1.5, tasks=9)) == "+100.0 points [+25.0, +100.0]"


@pytest.mark.parametrize("tasks", [1, 4])
def test_few_tasks_open_nothing(tasks: int) -> None:
    assert calibrate(log_of_levels(3, 2, tasks=tasks), {}, 6)[0] == SHUT


def test_chance_alone_seldom_opens_it() -> None:
    """Outcomes that no choice changes: 40 logs of 60 tasks, four thresholds each."""
    rng, opened = np.random.default_rng(0), 0
    for _ in range(40):
        steps = [[((0.1, 0.1 + rng.random()), int(rng.integers(2))) for _ in range(3)] for _ in range(60)]
        log = log_of(*((f"t{i}", bool(rng.integers(2)), own) for i, own in enumerate(steps)))
        opened += any(limit is not None for limit in calibrate(log, {}, 6)[0])
    assert opened <= 8


@pytest.mark.parametrize(("thresholds", "taken"), [(SHUT, 0), (OPEN, 1), ((None, None, None, 0.99, 0.99), 0)])
async def test_only_an_open_gate_lets_an_agent_leave_the_first(
    thresholds: tuple[float | None, ...], taken: int
) -> None:
    keys = memory_keys(STATE, [RED, BLUE])
    memory = Memory.learn([Experience([(keys, won)], float(won)) for won in (0, 1) for _ in range(5)], train_n=2)
    scorer = GatedScorer(MemoryScorer(memory), memory, Gate(checkpoint=memory.checkpoint, thresholds=thresholds))
    agent = Agent(name="a", proposer=ScriptedProposer([["click [1]", "click [2]"]]), scorer=scorer, n_candidates=2)
    decision = await agent.decide(STATE, np.random.default_rng(0))
    assert decision.chosen == taken
    assert decision.gate is not None
    assert (decision.gate.open, decision.gate.level) == (taken == 1, 4)
    assert decision.scores[1] > decision.scores[0]
    assert unpack(Decision, pack(decision)) == decision


def test_it_is_read_only_with_the_values_that_it_is_for(tmp_path: Path) -> None:
    gate = Gate(checkpoint="one", thresholds=OPEN)
    gate.save(tmp_path)
    assert Gate.load(tmp_path, "one") == gate
    assert Gate.load(tmp_path, "another") is None
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(CheckpointError):
        Gate.load(tmp_path, "one")
