"""A reader of agent-evals: 940 public runs of the agent STeP on WebArena, each judged by WebArena's own check.

    git clone https://github.com/benediktstroebl/agent-evals
    bestofq import experiments.real_logs.agent_evals:read agent-evals/webagents-step/data/webarena/eval \\
        --store runs/real-logs-agent-evals

A record without `done` is a call of one policy by another, or its return: it does nothing on the page and is no step.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bestofq.core.actions import Action, Other
from bestofq.core.decision import Episode
from bestofq.interop.actions import call_of, candidate_of, elements_in
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import UNJUDGED, Turn, decision_of, episode_of, page_of, verdict_by

WEBARENA = "webarena"
SITES = {7770: "shopping", 7780: "shopping_admin", 8023: "gitlab", 8888: "wikipedia", 9999: "reddit"}
TITLE = re.compile(r"RootWebArea '([^\n]*?)'(?: focused|$)", re.M)
COMMANDS = {
    r"click \[(?P<mark>\d+)\]": "click",
    r"type \[(?P<mark>\d+)\] \[(?P<text>.*?)\](?: \[(?P<enter>[01])\])?": "write",
    r"goto \[(?P<url>.+)\]": "goto",
    r"stop \[(?P<text>.*)\]": "answer",
    r"scroll \[(?:direction=)?down\]": "scroll_down",
    r"scroll \[(?:direction=)?up\]": "scroll_up",
    r"go_back": "go_back",
}


def read(path: Path) -> Iterator[Episode | Malformed]:
    """The runs below a folder, whose names are agent / model / run / time / task."""
    yield from json_files(path, episode)


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none. A run that broke off is unjudged."""
    first, last = record["trajectory"][0], record["trajectory"][-1]
    agent = file.parents[3].name if len(file.parents) > 3 else "step"
    turns = [_turn(step) for step in record["trajectory"] if "done" in step]
    verdict = verdict_by("", success=last["success"] == 1.0) if last.get("done") else UNJUDGED
    found = episode_of(WEBARENA, first["objective"], turns, task=task_at(first["url"], record["id"]), verdict=verdict)
    return found.model_copy(update={"agent": agent, "id": f"{agent} {file.parent.name} {record['id']}"})


def task_at(url: str, number: Any) -> str:
    """Task and site of WebArena; all its sites but the map have ports of their own."""
    return f"{WEBARENA}--{SITES.get(urlsplit(url).port or 0, 'map')}--{number}"


def _turn(step: Any) -> Turn:
    text = step["observation"]
    title = TITLE.search(text)
    seen = page_of(text, elements_in(text), url=step["url"], title=title.group(1) if title else "")
    return seen, decision_of({}, candidate_of([_action(step["action"])], seen.elements, thought=step["reason"]))


def _action(said: str) -> Action:
    for pattern, name in COMMANDS.items():
        if found := re.fullmatch(rf"{pattern}(?:\s+#.*)?", said.strip(), re.S):
            return call_of(name, {key: value for key, value in found.groupdict().items() if value is not None}).action
    return Other(text=said)
