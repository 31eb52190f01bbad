"""Go-Browse's raw steps, a JSON line each. Those of one goal and number are an episode, wherever they stand."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from bestofq.core.decision import Episode
from bestofq.interop.actions import action_of, candidate_of, elements_in
from bestofq.interop.files import Malformed, Naming, attempt, files_of
from bestofq.interop.nouns import UNJUDGED, Turn, decision_of, episode_of, json_in, page_of, taken, text_of, verdict_by

NAME = "go-browse"


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
                steps = [json_in(_line_at(lines, offset)) for offset in offsets]
                yield named.read(f"{file.name}, trajectory {trajectory} of {goal!r}", steps, file, episode)


def _line_at(lines: BinaryIO, offset: int) -> bytes:
    lines.seek(offset)
    return lines.readline()


def _key(line: bytes) -> tuple[str, str]:
    trajectory = json_in(line)["traj_data"]
    return str(trajectory["goal"]), str(trajectory["traj_num"])


def episode(records: Any, _: Path) -> Episode:
    """Of the steps of one trajectory. ValueError, LookupError or TypeError if they are none."""
    turns = [_turn(record) for record in records]
    whole, rest = taken(records[0]["traj_data"], "goal", "reward")
    verdict = UNJUDGED
    if isinstance(reward := whole.get("reward"), int | float):
        verdict = verdict_by(f"{NAME}'s judge", success=reward >= 1, reward=reward)
    return episode_of(NAME, whole["goal"], turns, verdict=verdict, rest=rest)


def _turn(record: Any) -> Turn:
    step, outer = taken(record, "step_data")
    own, rest = taken(step["step_data"], "parsed_action", "thought", "obs")
    page, left = taken(own.get("obs", {}), "axtree_txt", "last_action_error")
    text, written = text_of(page.get("axtree_txt")), text_of(own.get("parsed_action"))
    seen = page_of(text, elements_in(text), error=text_of(page.get("last_action_error")) or None)
    actions = [action_of(written)] if written else []
    candidate = candidate_of(actions, seen.elements, thought=text_of(own.get("thought")), reply=written)
    return seen, decision_of({**outer, "traj_data": None, "step_data": rest, "obs": left}, candidate)
