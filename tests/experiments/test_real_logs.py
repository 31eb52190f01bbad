"""The readers of experiments/real_logs, on small logs in their agents' forms: open-operator-evals, agent-evals and
browser-agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from bestofq.core.actions import Action, Answer, Click, Goto, Other, Press, Scroll, Write
from bestofq.core.decision import Episode
from bestofq.interop.files import Malformed
from experiments.real_logs import agent_evals, browser_agent, open_operator

BROWSER_USE = (
    "[Current state starts here]\nCurrent url: https://shop.example/\nAvailable tabs:\n"
    "[TabInfo(page_id=0, url='https://shop.example/', title='Lamps')]\n[0]<a Home/>\n[9]<a Red\nlamp/>\n[10]<button/>"
)
CONVERGENCE = 'URL: https://shop.example/\n- [0] <div>All</div>\n- [3] <input value="" placeholder="Search"></input>'
NOTTE = (
    "* Current url: https://shop.example/\n* Current page title: Lamps\n"
    'L1[:]<a href="/">Home</a>\nI1[:]<input name="q"></input>'
)


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"function": {"name": name, "arguments": json.dumps(arguments)}}]}


def output(*actions: object) -> dict[str, Any]:
    return call("AgentOutput", current_state={"next_goal": "look"}, action=actions)


def content(*actions: object) -> dict[str, Any]:
    return {"content": json.dumps({"state": {"next_goal": "look"}, "actions": actions}), "tool_calls": None}


def episode(folder: Path, agent: str, page: str, message: object, judged: object) -> Episode:
    asked = [{"role": "system", "content": "act"}, {"content": [{"type": "text", "text": page}]}, {"content": "now"}]
    run = {
        "task": {"question": "Find a lamp", "url": "https://shop.example/"},
        "task_id": "webvoyager--Shop--1",
        "run_id": 3,
        "eval": judged,
        "steps": [{"url": "about:blank", "llm_calls": [{"messages_in": asked, "message_out": message}]}],
    }
    file = folder / agent / "17" / "shop" / "3" / "results_no_screenshot.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(run), "utf-8")
    (found,) = open_operator.read(folder)
    assert isinstance(found, Episode)
    return found


TYPE = call("type", entries=[{"mark_id": 3, "content": "lamp"}], submit=True)
FILL = content({"fill": {"id": "I1", "value": "a", "clear_before_fill": True}})


@pytest.mark.parametrize(
    ("page", "message", "action", "label"),
    [
        (BROWSER_USE, output({"click_element": {"index": 9}}), Click(mark=2), "click link Red lamp"),
        (BROWSER_USE, output({"done": {"text": "Red", "success": True}}), Answer(text="Red"), 'answer "Red"'),
        (BROWSER_USE, call("AgentOutput"), Other(text="no action"), "no action"),
        (CONVERGENCE, call("click", mark_id=0), Click(mark=1), "click div All"),
        (CONVERGENCE, TYPE, Write(mark=2, text="lamp", enter=True), 'write textbox Search "lamp" enter'),
        (CONVERGENCE, call("return_value", value="Red"), Answer(text="Red"), 'answer "Red"'),
        (NOTTE, content({"click": {"id": "L1"}}), Click(mark=1), "click link Home"),
        (NOTTE, FILL, Write(mark=2, text="a"), None),
        (NOTTE, content({"click": {"id": "B7"}}), Other(text='click {"element": "B7"}'), None),
    ],
)
def test_each_agents_actions(tmp_path: Path, page: str, message: object, action: Action, label: str | None) -> None:
    found = episode(tmp_path, "Agent", page, message, {"eval": "success", "reason": "as asked"})
    candidate = found.steps[0].decision.candidate
    assert candidate.action == action
    assert label in (None, candidate.label)
    assert found.steps[0].observation.url == "https://shop.example/"
    assert found.steps[0].observation.title == ("" if page is CONVERGENCE else "Lamps")
    assert (found.agent, found.task.id, found.verdict.outcome) == ("Agent", "webvoyager--Shop--1", "success")


@pytest.mark.parametrize("judged", [None, {"eval": "unknown", "reason": "no picture"}, "success"])
def test_only_a_judges_plain_word_is_an_outcome(tmp_path: Path, judged: object) -> None:
    found = episode(tmp_path, "Notte", NOTTE, content(), judged)
    assert found.verdict.outcome == ("success" if judged == "success" else "unjudged")


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
