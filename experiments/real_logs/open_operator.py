"""A reader of open-operator-evals: 720 public runs of three agents on 30 live WebVoyager tasks, each judged.

    git clone https://github.com/nottelabs/open-operator-evals
    bestofq import experiments.real_logs.open_operator:read open-operator-evals/WebVoyager30 --store runs/real-logs

Each agent writes pages and actions in its own way. An element's number in a page is its place there; what an agent says
of no element stays as it was written.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bestofq.core.actions import Action, Other
from bestofq.core.decision import Candidate, Episode, Verdict
from bestofq.core.observation import Observation
from bestofq.interop.actions import call_of, candidate_of
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import UNJUDGED, Turn, decision_of, element_of, episode_of, page_of, text_of, verdict_by

SUITE = "open-operator-evals"
PAGE = re.compile(r"^\W*(?:Current url|URL): *(\S+)", re.M)
TITLE = re.compile(r"^\W*Current page title: (.+)$", re.M)
ELEMENT = re.compile(r"^(?:- )?\[?([A-Z]?\d+)(?:\]|\[:\]) ?<(\w+) ?([^>]*?)/?>(?:([^\n]*?)(?:</\w+>|/>|$))?", re.M)
"""`[1]<a Home/>` of BrowserUse, `- [1] <a>Home</a>` of Convergence, `L1[:]<a href="/">Home</a>` of Notte."""
ATTRIBUTE = re.compile(r'(?:aria_label|placeholder|alt|title|value)="([^"]+)"')
NAMES = {"type": "input", "return_value": "done", "completion": "done", "press_key": "send_keys"}
ARGUMENTS = {"answer": "text", "content": "text", "time_ms": "milliseconds", "query": "text"}
SILENT = {"clear_before_fill", "amount", "query_plan", "instructions"}


class Page(NamedTuple):
    seen: Observation
    marks: Mapping[str, int]  # by the agent's own numbers


def read(path: Path) -> Iterator[Episode | Malformed]:
    """The runs below a folder, whose names are agent / time / task / repeat."""
    yield from json_files(path, episode, "results*.json")


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none. The agent's own `success` is no verdict."""
    task, agent = record["task"], file.parents[3].name if len(file.parents) > 3 else SUITE
    turns = [_turn(step) for step in record["steps"]]
    found = episode_of(
        SUITE,
        task["question"],
        turns,
        url=task.get("url") or "",
        task=record.get("task_id") or "",
        verdict=_verdict(record.get("eval")),
    )
    return found.model_copy(update={"agent": agent, "id": f"{agent} {record.get('task_id')} {record.get('run_id')}"})


def _turn(step: Any) -> Turn:
    """The last call of the model decides; the last page that it was shown is what it saw."""
    calls = step.get("llm_calls") or [{}]
    shown = (text_of(message.get("content")) for message in reversed(calls[-1].get("messages_in") or []))
    page = _page(next((text for text in shown if PAGE.search(text)), ""), step.get("url") or "")
    return page.seen, decision_of({}, _candidate(calls[-1].get("message_out") or {}, page))


def _page(text: str, url: str) -> Page:
    begin = PAGE.search(text)
    url = begin.group(1) if begin else url
    title = TITLE.search(text) or re.search(rf"""url='{re.escape(url)}', title=['"](.*?)['"]\)""", text)
    found = [(number, tag, words or _name(attributes)) for number, tag, attributes, words in ELEMENT.findall(text)]
    marks = {number: at for at, (number, *_) in enumerate(found, 1)}
    elements = [element_of(at, tag, name[:200]) for at, (_, tag, name) in enumerate(found, 1)]
    seen = page_of(
        text[begin.start() :] if begin else text,
        [element for element in elements if element],
        url=url,
        title=title.group(1) if title else "",
    )
    return Page(seen, marks)


def _name(attributes: str) -> str:
    named = ATTRIBUTE.search(attributes)
    return named.group(1) if named else "" if "=" in attributes else attributes


def _candidate(message: Any, page: Page) -> Candidate:
    message = message if isinstance(message, Mapping) else {"content": message}
    words, calls = text_of(message.get("content")), [one["function"] for one in message.get("tool_calls") or ()]
    named = [(one["name"], _json(one["arguments"])) for one in calls]
    whole = named[0][1] if named and named[0][0] == "AgentOutput" else _json(words)
    if not named or named[0][0] == "AgentOutput":
        named = [pair for one in whole.get("action") or whole.get("actions") or () for pair in one.items()]
    state = whole.get("current_state") or whole.get("state") or {}
    actions = [action for name, arguments in named for action in _actions(name, arguments or {}, page.marks)]
    thought = text_of(state.get("evaluation_previous_goal") or state.get("previous_goal_eval")) or words
    said = {"thought": thought, "explanation": text_of(state.get("next_goal")), "note": text_of(state.get("memory"))}
    elements = page.seen.elements
    return candidate_of(actions or ([Other(text=words)] if words else []), elements, **said)


def _json(text: str) -> Mapping[str, Any]:
    found = re.search(r"\{.*\}", text, re.S)
    try:
        whole = json.loads(found.group()) if found else {}
    except ValueError:
        return {}
    return whole if isinstance(whole, Mapping) else {}


def _actions(name: str, arguments: Mapping[str, Any], marks: Mapping[str, int]) -> Iterator[Action]:
    for entry in arguments.get("entries") or [arguments]:
        own = {ARGUMENTS.get(key, key): value for key, value in entry.items() if key not in SILENT}
        number = next((str(own.pop(key)) for key in ("index", "mark_id", "id") if key in own), "-1")
        if "entries" in arguments and arguments.get("submit"):
            own["submit"] = True
        if number in marks:
            own["mark"] = marks[number]
        elif number != "-1":
            own["element"] = number  # of nothing on the page
        yield call_of(NAMES.get(name, name), own).action


def _verdict(said: Any) -> Verdict:
    """Success and failure as judged; "unknown" and none stay unjudged."""
    word, why = (said.get("eval"), text_of(said.get("reason"))) if isinstance(said, Mapping) else (said, "")
    if word in ("success", "failure"):
        return verdict_by(f"{SUITE}' judge", success=word == "success", reason=why)
    return UNJUDGED
