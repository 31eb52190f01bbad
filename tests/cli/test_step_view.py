"""How a step looks in the terminal."""

import io

import pytest
from rich.console import Console

from bestofq.cli.step_view import StepPrinter, bar, shown
from bestofq.core.actions import Click, Scroll
from bestofq.core.decision import Candidate, Decision, State, Step
from bestofq.core.observation import Observation, Task
from bestofq.core.usage import Usage


@pytest.mark.parametrize(
    ("scores", "bars"),
    [
        ((0.5, 1.0), ("█████░░░░░", "██████████")),
        ((-4.0, -2.0, -3.0), ("░░░░░░░░░░", "██████████", "█████░░░░░")),
        ((-1.0, -1.0), ("██████████", "██████████")),
    ],
)
def test_a_bar_is_of_one_or_of_the_way_from_least_to_most(scores: tuple[float, ...], bars: tuple[str, ...]) -> None:
    assert tuple(bar(scores, index) for index in range(len(scores))) == bars


def test_what_could_steer_a_terminal_is_not_shown() -> None:
    assert shown("a\x1b[2Jb\u202ec\x07") == "a [2Jb c "


def step(usage: Usage, *, value: float | None = None, error: str | None = None) -> tuple[State, Step]:
    seen = Observation(
        url="http://shop.test/", title="Kettles", text="", elements=(), error=error, notices=("A dialog.",)
    )
    candidates = (
        Candidate(action=Click(mark=1), label="click button [bold]Add", thought="it fits"),
        Candidate(action=Scroll(), label="scroll down"),
    )
    decision = Decision(
        candidates=candidates, scores=(0.25, 0.75), state_value=value, chosen=1, explored=True, usage=(usage,)
    )
    task = Task(id="t", suite="web", goal="g", start_url="http://shop.test/")
    return State(task=task, observation=seen), Step(index=0, observation=seen, decision=decision)


def test_a_step_in_plain_lines() -> None:
    out, ticks = io.StringIO(), iter(range(100))
    view = StepPrinter(Console(file=out, width=60), clock=lambda: float(next(ticks)))
    usage = Usage(role="proposer", tokens_in=1200, tokens_out=30, calls=1, usd=0.002)
    for known in (usage, usage.model_copy(update={"usd": None})):
        state, made = step(known, value=0.5, error="It is covered.")
        view.show_decision(state, made.decision)
        view.show_step(made)
    lines = out.getvalue().splitlines()
    assert lines[1:9] == [
        "1. Kettles  http://shop.test/",
        "    A dialog.",
        "    not done: It is covered.",
        f"{'    click button [bold]Add':48}   0.250 ██░░░░░░░░",
        "      it fits",
        f"{'  ▸ scroll down':48}   0.750 ████████░░",
        "    V(s) = 0.500",
        "    chosen to explore, not for its score",
    ]
    assert lines[9] == "    1.0 s; so far 2.0 s, 1,200 tokens in, 30 out, $0.0020"
    assert lines[-1] == "    2.0 s; so far 4.0 s, 2,400 tokens in, 60 out"
    assert view.by_role == ("the proposer read 2,400 tokens and wrote 60 (price unknown)",)
