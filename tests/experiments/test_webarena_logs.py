"""The readers of agent-evals and browser-agent, on small logs in their forms."""

import json
from pathlib import Path
from typing import Any

import pytest

from bestofq.core.actions import Action, Answer, Click, Goto, Other, Press, Scroll, Write
from bestofq.interop.files import Malformed
from experiments.real_logs import agent_evals, browser_agent

SHOP = "http://host.example:7770/lamps"
STEP_PAGE = "Tab 0 (current): Lamps\n\n[1] RootWebArea 'Lamps' focused: True\n\t[5] button \"Bob's\" hasPopup: menu"
GYM_PAGE = "RootWebArea 'Lamps', focused\n\t[5] link 'Red lamp', clickable\n\t\tStaticText 'Red lamp'"


def step(action: str, **more: object) -> dict[str, object]:
    page = {"objective": "Find a lamp", "url": SHOP, "observation": STEP_PAGE}
    return page | {"action": action, "reason": "look"} | more


def step_run(folder: Path, *steps: dict[str, object]) -> Any:
    file = folder / "step_full" / "model" / "run1" / "f1" / "7.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"id": 7, "trajectory": steps}), "utf-8")
    (found,) = agent_evals.read(folder)
    return found


def gym_run(folder: Path, *actions: str | None, error: str | None = None, reward: float = 0.0) -> Any:
    place = folder / "results" / "task_7"
    place.mkdir(parents=True)
    (place / "summary_info.json").write_text(json.dumps({"err_msg": error, "cum_reward": reward}), "utf-8")
    tabs = {"open_pages_urls": ["about:blank", SHOP], "open_pages_titles": ["", "Lamps"], "active_page_index": [1]}
    for number, action in enumerate(actions):
        said = f"<think>\nlook\n</think>\n<action>\n```{action}```\n</action>" if action else None
        seen: dict[str, Any] = {"goal": "Find a lamp", "axtree_txt": GYM_PAGE, **tabs}
        ended = number > 0 and number == len(actions) - 1
        record = {"obs": seen, "action": said, "terminated": ended, "truncated": False}
        (place / f"steps_info_{number}.json").write_text(json.dumps(record), "utf-8")
    (found,) = browser_agent.read(folder)
    return found


@pytest.mark.parametrize(
    ("said", "action", "label"),
    [
        ("click [5]", Click(mark=5), "click button Bob's"),
        ("click [5]  # the menu", Click(mark=5), "click button Bob's"),
        ("type [5] [red [big] lamp] [1]", Write(mark=5, text="red [big] lamp", enter=True), None),
        ("type [5] [red] [0]", Write(mark=5, text="red"), None),
        ("scroll [down]", Scroll(pages=1.0), None),
        (f"goto [{SHOP}]", Goto(url=SHOP), None),
        ("stop [N/A]", Answer(text="N/A"), None),
        ("note [a lamp]", Other(text="note [a lamp]"), None),
    ],
)
def test_commands_of_step(tmp_path: Path, said: str, action: Action, label: str | None) -> None:
    found = step_run(tmp_path, step("find_lamp [red]"), step(said, done=True, success=1.0))
    (only,) = found.steps
    assert only.decision.candidate.action == action
    assert label in (None, only.decision.candidate.label)
    assert only.observation.title == "Lamps"
    assert (found.agent, found.task.id, found.verdict.outcome) == ("step_full", "webarena--shopping--7", "success")


@pytest.mark.parametrize(("done", "outcome"), [(True, "failure"), (False, "unjudged")])
def test_a_run_of_step_that_broke_off_has_no_outcome(tmp_path: Path, done: bool, outcome: str) -> None:
    assert step_run(tmp_path, step("click [5]", done=done, success=0.0)).verdict.outcome == outcome


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("click('5')", Click(mark=5)),
        ("fill('5', 'Bob\\'s lamp')", Write(mark=5, text="Bob's lamp")),
        ('select_option("5", "Red")', Write(mark=5, text="Red")),
        ("keyboard_press('ArrowUp')", Press(keys="ArrowUp")),
        ("send_msg_to_user('Red')", Answer(text="Red")),
        ("hover('5')", Other(text="hover('5')")),
        ("click('5'", Other(text="click('5'")),
    ],
)
def test_calls_of_browsergym(tmp_path: Path, said: str, action: Action) -> None:
    found = gym_run(tmp_path, said, "click('5')", reward=1.0)
    (only,) = found.steps  # what is said after the end is none
    assert (only.decision.candidate.action, only.decision.candidate.thought) == (action, "look")
    assert (only.observation.url, only.observation.title) == (SHOP, "Lamps")
    assert (found.task.id, found.verdict.outcome) == ("webarena--shopping--7", "success")


@pytest.mark.parametrize(
    ("error", "reward", "outcome"), [(None, 0.5, "failure"), ("the model's server is away", 0.0, "infra_error")]
)
def test_outcomes_of_browsergym(tmp_path: Path, error: str | None, reward: float, outcome: str) -> None:
    found = gym_run(tmp_path, "click('5')", error=error, reward=reward)
    assert (found.verdict.outcome, found.verdict.reward) == (outcome, reward)


def test_a_run_without_steps_is_malformed(tmp_path: Path) -> None:
    assert isinstance(gym_run(tmp_path), Malformed)
