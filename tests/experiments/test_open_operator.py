"""The reader of open-operator-evals, on small logs in the words of its three agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from bestofq.core.actions import Action, Answer, Click, Other, Write
from bestofq.core.decision import Episode
from experiments.real_logs.open_operator import read

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
    (found,) = read(folder)
    assert isinstance(found, Episode)
    return found


@pytest.mark.parametrize(
    ("page", "message", "action", "label"),
    [
        (BROWSER_USE, output({"click_element": {"index": 9}}), Click(mark=2), "click link Red lamp"),
        (BROWSER_USE, output({"done": {"text": "Red", "success": True}}), Answer(text="Red"), 'answer "Red"'),
        (BROWSER_USE, call("AgentOutput"), Other(text="no action"), "no action"),
        (CONVERGENCE, call("click", mark_id=0), Click(mark=1), "click div All"),
        (
            CONVERGENCE,
            call("type", entries=[{"mark_id": 3, "content": "lamp"}], submit=True),
            Write(mark=2, text="lamp", enter=True),
            'write textbox Search "lamp" enter',
        ),
        (CONVERGENCE, call("return_value", value="Red"), Answer(text="Red"), 'answer "Red"'),
        (NOTTE, content({"click": {"id": "L1"}}), Click(mark=1), "click link Home"),
        (
            NOTTE,
            content({"fill": {"id": "I1", "value": "a", "clear_before_fill": True}}),
            Write(mark=2, text="a"),
            None,
        ),
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
