"""open-operator-evals' `results*.json`: runs of three agents, each judged. A reply's action is read where it has
browser-use's form; in the other dialects it stays as it was written."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestofq.core.actions import Other
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Verdict
from bestofq.core.observation import Observation
from bestofq.interop.actions import candidate_of
from bestofq.interop.browser_use import calls_of, candidate_of_output
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import UNJUDGED, decision_of, episode_of, taken, task_of, text_of

NAME = "open-operator-evals"
_OBJECT = re.compile(r"\{.*\}", re.S)
_OUTCOMES: dict[str, Outcome] = {"success": "success", "failure": "failure"}


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, episode, "results*.json", many="results")


def episode(record: Any, _: Path) -> Episode:
    """ValueError, LookupError or TypeError where it is none. Its agent's own `success` is no verdict."""
    own, rest = taken(record, "task", "eval", "steps")
    asked, more = taken(own["task"], "question", "url")
    turns = [_turn(step) for step in own.get("steps", ())]
    task = task_of(NAME, asked["question"], asked.get("url", ""))
    return episode_of(NAME, task, turns, verdict=_verdict(own.get("eval")), rest={**rest, "task": more})


def _turn(step: Any) -> tuple[Observation, Decision]:
    """The last call of the model decides; what it read last is the page."""
    own, rest = taken(step, "url", "llm_calls")
    *earlier, last = own.get("llm_calls") or [{}]
    call, left = taken(last, "message_out", "pretty_out")
    messages = left.get("messages_in") or []
    text = text_of(messages[-1].get("content")) if messages and isinstance(messages[-1], Mapping) else ""
    seen = Observation(url=own.get("url", ""), title="", text=text, elements=())
    kept = {**rest, "llm_calls": [*earlier, {**left, "pretty_out": call.get("pretty_out")}]}
    return seen, decision_of(kept, _candidate(call))


def _candidate(call: Mapping[str, Any]) -> Candidate:
    reply = _words(call.get("message_out"))
    output = _output(reply)
    if output is not None:
        return candidate_of_output(output, calls_of(output), ()).model_copy(update={"reply": reply})
    written = text_of(call.get("pretty_out")) or reply
    return candidate_of([Other(text=written)] if written else [], (), reply=reply)


def _words(message: Any) -> str:
    """A message, or its content alone."""
    return text_of(message.get("content") if isinstance(message, Mapping) and "content" in message else message)


def _output(reply: str) -> dict[str, Any] | None:
    """The reply as browser-use's object; None where it is none."""
    found = _OBJECT.search(reply)
    try:
        output = json.loads(found.group()) if found else None
    except ValueError:
        return None
    actions = output.get("action") if isinstance(output, dict) else None
    fits = isinstance(actions, list) and actions and all(isinstance(one, dict) for one in actions)
    if not fits or not isinstance(output, dict):
        return None
    state = output.get("current_state")
    return {**state, **output} if isinstance(state, dict) else output


def _verdict(said: Any) -> Verdict:
    """Success and failure as judged; "unknown" and none stay unjudged."""
    word, why = (said.get("eval"), text_of(said.get("reason"))) if isinstance(said, Mapping) else (said, "")
    outcome = _OUTCOMES.get(str(word).lower())
    judge = f"{NAME}' judge"
    if outcome is None:
        return UNJUDGED.model_copy(update={"reason": why, "judge": judge}) if why else UNJUDGED
    return Verdict(reward=float(outcome == "success"), outcome=outcome, reason=why, judge=judge)
