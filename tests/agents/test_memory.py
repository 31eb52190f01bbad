"""The memory's keys: what it knows again on another page, and what it tells apart on one page."""

from bestofq.agents.scorers.memory import memory_keys
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.observation import Element, Observation, Task


def keys(goal: str, text: str, names: list[str], before: str | None = None) -> list[list[str]]:
    """The keys of a click on each button of a page, after a click on the button `before`."""
    elements = tuple(Element(mark=mark, role="button", name=name) for mark, name in enumerate(names, 1))
    page = Observation(url="", title="Results", text=text, elements=elements)
    done = [Candidate(action=Click(mark=1), label=f"click button {before}")] if before else []
    decisions = tuple(Decision(candidates=(one,), scores=(0.0,), chosen=0) for one in done)
    state = State(task=Task(id="t", suite="s", goal=goal, start_url=""), observation=page, decisions=decisions)
    clicks = [Candidate(action=Click(mark=e.mark), label=f"click button {e.name}".strip()) for e in elements]
    return [[*one] for one in memory_keys(state, clicks)]


def test_buttons_of_one_name_are_told_apart_by_the_words_before_them() -> None:
    page = "Oak desk $20 Add to cart [1]\nBrass chair $30 Add to cart [2] Out [3]", [*["Add to cart"] * 2, "Out"]
    chair, desk = keys("buy a brass chair", *page), keys("buy an oak desk", *page)
    assert chair[0][2] != chair[1][2]
    assert chair[1][2] == desk[0][2]
    assert chair[0][3] != chair[1][3]
    assert chair[2][2] == keys("buy a hat", "Out [1]", ["Out"])[0][2]  # a name of its own, wherever it stands


def test_elements_without_names_are_told_apart_for_one_goal_only() -> None:
    first, second, third = keys("click the red box", "[1] [2] [3]", ["", "", ""])
    assert first[2] == second[2] == third[2]
    assert len({first[3], second[3], third[3]}) == 3


def test_the_steps_of_one_page_are_told_apart_by_the_action_before() -> None:
    page = "click ONE, then TWO", "ONE [1] TWO [2]", ["ONE", "TWO"]
    begin, after = keys(*page), keys(*page, before="ONE")
    assert [one[:3] for one in begin] == [one[:3] for one in after]
    assert len({one[3] for one in (*begin, *after)}) == 4
