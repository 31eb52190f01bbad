"""WebVoyager's `interact_messages.json`, one in each task's folder, `task<Site>--<number>`. They have no outcome."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bestofq.agents.dialects.commands import Commands, read_command
from bestofq.core.actions import Action, Answer, Click, GoBack, Goto, Other, Scroll, Wait, Write
from bestofq.core.decision import Candidate, Episode
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Observation
from bestofq.interop.actions import NOTHING, candidate_of
from bestofq.interop.chat import Json, goal_of, heard, turns_of
from bestofq.interop.nouns import element_of, episode_of, picture_of, text_of

_TASK = re.compile(r"Now given a task:\s*(.*?)\s*Please interact with\s+(\S+)", re.S)
_MARK = re.compile(r'\[(\d{1,9})\]: (?:<(\w+)> )?"(.*?)"(?=[;,]|\s*$)', re.M)
_ON = r"\[?(\d{1,9})\]?"
_MORE = r"(?!\w)(?s:.*)"  # a full stop, a reason
_WAY = rf";? \[?(up|down)\]?{_MORE}"
_ACTIONS: Commands = (
    (re.compile(rf"Click {_ON}{_MORE}"), lambda mark: Click(mark=int(mark))),
    (re.compile(rf"Type {_ON};? (.*)", re.S), lambda mark, text: Write(mark=int(mark), text=_bare(text), enter=True)),
    (re.compile(rf"Scroll (?:\[?WINDOW\]?|{_ON}){_WAY}"), lambda at, way: Scroll(mark=at and int(at), direction=way)),
    (re.compile(rf"Wait{_MORE}"), lambda: Wait(seconds=5)),
    (re.compile(rf"GoBack{_MORE}"), GoBack),
    (re.compile(rf"Google{_MORE}"), lambda: Goto(url="https://www.google.com/")),
    (re.compile(r"ANSWER;? (.*)", re.S), lambda text: Answer(text=_bare(text))),
)
"""By what its runner does with them: what is typed replaces the field's text and is sent by Enter."""


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none."""
    turns, final = turns_of(record, file, _look, _parse)
    turns = [(_with_picture(seen, n, file), decision) for n, (seen, decision) in enumerate(turns, 1)]
    final = final and _with_picture(final, len(turns) + 1, file)
    begun = goal_of(record)
    found = _TASK.search(begun)
    goal, url = found.groups() if found else (begun, "")
    name = file.parent.name.removeprefix("task")
    system = [message for message in record if message["role"] == "system"]
    task = name if "--" in name else ""
    return episode_of("webvoyager", goal, turns, url=url, task=task, final=final, rest={"messages": system})


def _look(messages: Sequence[Json], file: Path) -> Observation:
    seen = heard(messages, file)
    elements = (element_of(int(mark), tag, name) for mark, tag, name in _MARK.findall(seen.text))
    return seen.model_copy(update={"elements": tuple({one.mark: one for one in elements if one is not None}.values())})


def _with_picture(seen: Observation, number: int, file: Path) -> Observation:
    """The page with its picture, which is a file of the task's folder if the messages hold none."""
    shot = seen.screenshot or picture_of(f"screenshot{number}.png", file.parent)
    return seen.model_copy(update={"screenshot": shot})


def _parse(message: Json, seen: Observation, _last: bool) -> Candidate:
    reply = text_of(message.get("content"))
    before, _, after = reply.partition("Action:")
    thought = before.strip().removeprefix("Thought:").strip()
    written = re.split("Thought:|Action:|Observation:", after)[0].strip()  # then some models make up what follows
    return candidate_of([_action(written)], seen.elements, thought=thought, reply=reply)


def _action(written: str) -> Action:
    try:
        return read_command(written, _ACTIONS, "one of WebVoyager's")
    except ReplyError:  # such as of mark 0, which none of ours has
        return Other(text=written or NOTHING)


def _bare(text: str) -> str:
    return text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
