"""Our own JSON lines: an episode a line, for logs that no other reader fits (docs/how-to/import-logs.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bestofq.agents.dialects.commands import parse_action
from bestofq.core.actions import ACTION, Action, Other, action_text
from bestofq.core.decision import Candidate, Decision, Episode, Verdict
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Element, Observation
from bestofq.interop.nouns import Turn, episode_of, log_of, page_of, picture_of, taken

_OUTCOMES: Mapping[Any, str] = {True: "success", False: "failure"}
_DECISION = ("scores", "state_value", "scorer", "explored", "checkpoint", "visits", "feedback", "propensities", "usage")


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none."""
    own, rest = taken(record, "goal", "url", "task", "suite", "agent", "id", "steps", "final")
    said, rest = taken(rest, "outcome", "reward", "reason", "judge")
    if not isinstance(goal := own["goal"], str) or not goal.strip():
        raise ValueError("its goal is no text")
    found = episode_of(
        own.get("suite", "imported"),
        goal,
        [_turn(step, file.parent) for step in own.get("steps", ())],
        url=own.get("url", ""),
        task=str(own.get("task", "")),
        verdict=_verdict(said),
        final=_page(own["final"], file.parent) if "final" in own else None,
        rest=rest,
    )
    return found.model_copy(update={"id": str(own.get("id", "")), "agent": str(own.get("agent", "imported"))})


def _verdict(said: Mapping[str, Any]) -> Verdict:
    given = said.get("outcome", "unjudged")
    outcome = _OUTCOMES.get(given, given)
    return Verdict.model_validate({"reward": float(outcome == "success"), **said, "outcome": outcome})


def _turn(step: Any, folder: Path) -> Turn:
    own, rest = taken(step, "observation", "candidates", "action", "chosen")
    known, rest = taken(rest, *_DECISION)
    seen = _page(own.get("observation", ""), folder)
    offered = own["candidates"] if "candidates" in own else [own["action"]]
    if isinstance(offered, str | Mapping):
        raise ValueError("its candidates are no list")
    candidates = tuple(_candidate(one, seen.elements) for one in offered)
    known = {"scores": [0.0] * len(candidates), **known, "chosen": own.get("chosen", 0)}
    return seen, Decision.model_validate({"candidates": candidates, **known, "log": log_of(rest)})


def _page(given: Any, folder: Path) -> Observation:
    if isinstance(given, str):
        return page_of(given)
    named = given.get("screenshot")
    if (picture := picture_of(named, folder)) is None and named is not None:
        raise ValueError(f"there is no picture {named!r} in the log's folder")
    blank = {"url": "", "title": "", "text": "", "elements": ()}
    return Observation.model_validate({**blank, **given, "screenshot": picture})


def _candidate(given: Any, elements: tuple[Element, ...]) -> Candidate:
    own = {"action": given} if isinstance(given, str) else dict(given)
    action = own["action"] = _action(own["action"])
    return Candidate.model_validate({"label": action_text(action, elements), **own})


def _action(given: Any) -> Action:
    """One of our commands, an action as an object, or any other words."""
    if not isinstance(given, str):
        return ACTION.validate_python(given)
    try:
        return parse_action(given)
    except ReplyError:
        return Other(text=given)
