"""Go-Browse's raw steps, a JSON line each; steps of one goal and trajectory number are an episode, wherever they stand."""

import ast
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from bestofq.core.actions import Action, Other
from bestofq.core.decision import Decision, Episode, Verdict
from bestofq.core.observation import Observation
from bestofq.interop.actions import candidate_of, exactly
from bestofq.interop.files import Malformed, Naming, attempt, files_of
from bestofq.interop.nouns import UNJUDGED, decision_of, elements_in, episode_of, taken, task_of, text_of

NAME = "go-browse"
_SIGNATURES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # BrowserGym's actions that are exactly ours
    "click": ("click", ("mark",)),
    "fill": ("write", ("mark", "text")),
    "clear": ("clear", ("mark",)),
    "goto": ("goto", ("url",)),
    "go_back": ("go_back", ()),
    "noop": ("wait", ("seconds",)),
    "send_msg_to_user": ("answer", ("text",)),
}


def read(path: Path) -> Iterator[Episode | Malformed]:
    named = Naming()
    for file in files_of(path, "*.jsonl"):
        places: dict[tuple[str, str], list[int]] = {}
        at = 0
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                key = attempt(f"{file.name}, line {number}", partial(_key, line)) if line.strip() else None
                if isinstance(key, Malformed):
                    yield key
                elif key is not None:
                    places.setdefault(key, []).append(at)
                at += len(line)
            for (goal, trajectory), offsets in places.items():
                steps = [from_json(_line_at(lines, offset)) for offset in offsets]
                yield named.read(f"{file.name}, trajectory {trajectory} of {goal!r}", steps, file, episode)


def _line_at(lines: BinaryIO, offset: int) -> bytes:
    lines.seek(offset)
    return lines.readline()


def _key(line: bytes) -> tuple[str, str]:
    trajectory = from_json(line)["traj_data"]
    return str(trajectory["goal"]), str(trajectory["traj_num"])


def episode(records: Any, _: Path) -> Episode:
    """Of the steps of one trajectory. ValueError, LookupError or TypeError where they are none."""
    turns = [_turn(record) for record in records]
    whole, rest = taken(records[0]["traj_data"], "goal", "reward")
    return episode_of(NAME, task_of(NAME, whole["goal"]), turns, verdict=_verdict(whole.get("reward")), rest=rest)


def _turn(record: Any) -> tuple[Observation, Decision]:
    step, outer = taken(record, "step_data")
    own, rest = taken(step["step_data"], "parsed_action", "thought", "obs")
    page, left = taken(own.get("obs", {}), "axtree_txt", "last_action_error")
    text, written = text_of(page.get("axtree_txt")), text_of(own.get("parsed_action"))
    error = text_of(page.get("last_action_error")) or None
    seen = Observation(url="", title="", text=text, elements=elements_in(text), error=error)
    actions = [_action(written)] if written else []
    candidate = candidate_of(actions, seen.elements, thought=text_of(own.get("thought")), reply=written)
    return seen, decision_of(candidate, {**outer, "traj_data": None, "step_data": rest, "obs": left})


def _action(written: str) -> Action:
    """`click('12')` with nothing but values, in our order."""
    try:
        call = ast.parse(written.strip(), mode="eval").body
        values = [ast.literal_eval(one) for one in call.args] if isinstance(call, ast.Call) else []
    except (SyntaxError, ValueError):
        return Other(text=written)
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return Other(text=written)
    kind, names = _SIGNATURES.get(call.func.id, ("", ()))
    if len(values) != len(names):
        return Other(text=written)
    given = dict(zip(names, values, strict=True))
    if "seconds" in given:  # of milliseconds
        given["seconds"] = given["seconds"] / 1000
    return exactly(kind, written, **given)


def _verdict(reward: Any) -> Verdict:
    if not isinstance(reward, int | float):
        return UNJUDGED
    return Verdict(reward=reward, outcome="success" if reward >= 1 else "failure", judge=f"{NAME}'s judge")
