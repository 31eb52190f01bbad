"""WebVoyager's `interact_messages.json`, one in each task's folder, `task<Site>--<number>`. They have no outcome."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bestofq.agents.dialects.commands import Commands, read_command
from bestofq.core.actions import Action, Answer, Click, GoBack, Goto, Other, Scroll, Wait, Write
from bestofq.core.decision import Candidate, Decision, Episode
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Element, Observation
from bestofq.interop.actions import candidate_of
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import decision_of, element_of, episode_of, taken, task_of, text_of

NAME = "webvoyager"
_TASK = re.compile(r"Now given a task:\s*(.*?)\s*Please interact with\s+(\S+)", re.S)
_MARK = re.compile(r'\[(\d{1,9})\]: (?:<(\w+)> )?"(.*?)"(?=[;,]|\s*$)', re.M)
_ON = r"\[?(\d{1,9})\]?"
_ACTIONS: Commands = (
    (re.compile(rf"Click {_ON}"), lambda mark: Click(mark=int(mark))),
    (re.compile(rf"Type {_ON};? (.*)", re.S), lambda mark, text: Write(mark=int(mark), text=_bare(text), enter=True)),
    (re.compile(r"Scroll \[?WINDOW\]?;? \[?(up|down)\]?"), lambda direction: Scroll(direction=direction)),
    (re.compile(r"Wait"), lambda: Wait(seconds=5)),
    (re.compile(r"GoBack"), GoBack),
    (re.compile(r"Google"), lambda: Goto(url="https://www.google.com/")),
    (re.compile(r"ANSWER;? (.*)", re.S), lambda text: Answer(text=_bare(text))),
)
"""By what its runner does with them: what is typed replaces the field's text and is sent by Enter."""


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, episode, "interact_messages.json")


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError where it is none."""
    turns: list[tuple[Observation, Decision]] = []
    heard: list[str] = []
    begun, said = "", []
    for message in record:
        own, rest = taken(message, "role", "content")
        text = text_of(own.get("content"))
        match own["role"]:
            case "assistant":
                seen = _page("\n".join(heard))
                turns.append((seen, decision_of(rest, _candidate(text, seen.elements))))
                heard = []
            case "user":
                begun = begun or text
                heard.append(text)
            case _:
                said.append(message)
    found = _TASK.search(begun)
    goal, url = found.groups() if found else (begun, "")
    name = file.parent.name.removeprefix("task")
    task = task_of(NAME, goal, url, name=name if "--" in name else "")
    return episode_of(
        NAME, task, turns, final=_page("\n".join(heard)) if heard and turns else None, rest={"messages": said}
    )


def _page(text: str) -> Observation:
    found: dict[int, Element] = {}
    for mark, tag, name in _MARK.findall(text):
        if (element := element_of(int(mark), tag, name)) is not None:
            found[element.mark] = element
    return Observation(url="", title="", text=text, elements=tuple(found.values()))


def _candidate(reply: str, elements: tuple[Element, ...]) -> Candidate:
    before, _, written = reply.rpartition("Action:")
    thought = before.strip().removeprefix("Thought:").strip()
    return candidate_of([_action(written.strip())], elements, thought=thought, reply=reply)


def _action(written: str) -> Action:
    try:
        return read_command(written, _ACTIONS, "one of WebVoyager's")
    except ReplyError:  # such as of mark 0, which none of ours has
        return Other(text=written)


def _bare(text: str) -> str:
    return text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
