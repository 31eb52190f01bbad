"""open-operator-evals' `results*.json`: runs of three agents, each judged. A reply's action is read where it has
browser-use's form; in the other dialects it stays as it was written."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.actions import Other
from bestofq.core.decision import Candidate, Episode, Verdict
from bestofq.core.observation import Element
from bestofq.interop.actions import candidate_of
from bestofq.interop.browser_use import calls_of, candidate_of_output, elements_on
from bestofq.interop.nouns import UNJUDGED, Turn, decision_of, episode_of, json_of, page_of, taken, text_of, verdict_by

NAME = "open-operator-evals"
_OBJECT = re.compile(r"\{.*\}", re.S)


def episode(record: Any, _: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none. Its agent's own `success` is no verdict."""
    own, rest = taken(record, "task", "eval", "steps")
    asked, more = taken(own["task"], "question", "url")
    turns = [_turn(step) for step in own.get("steps", ())]
    verdict, rest = _verdict(own.get("eval")), {**rest, "task": more}
    return episode_of(NAME, asked["question"], turns, url=asked.get("url", ""), verdict=verdict, rest=rest)


def _turn(step: Any) -> Turn:
    """The last call of the model decides; what it read last is the page."""
    own, rest = taken(step, "url", "llm_calls")
    *earlier, last = own.get("llm_calls") or [{}]
    call, left = taken(last, "message_out", "pretty_out")
    messages = left.get("messages_in") or []
    text = text_of(messages[-1].get("content")) if messages and isinstance(messages[-1], Mapping) else ""
    kept = {**rest, "llm_calls": [*earlier, {**left, "pretty_out": call.get("pretty_out")}]}
    seen = page_of(text, elements_on(text), url=own.get("url", ""))
    return seen, decision_of(kept, _candidate(call, seen.elements))


def _candidate(call: Mapping[str, Any], elements: Sequence[Element]) -> Candidate:
    message = call.get("message_out")  # a message with content or with a tool's call, or the content alone
    reply = text_of(message.get("content") if isinstance(message, Mapping) and "content" in message else message)
    if not reply and isinstance(message, Mapping):
        called = [one.get("function") or {} for one in message.get("tool_calls") or ()]
        given = next((one.get("arguments") for one in called), "")
        reply = given if isinstance(given, str) else json_of(given)
    if (output := _output(reply)) is not None:
        return candidate_of_output(output, calls_of(output), elements).model_copy(update={"reply": reply})
    written = text_of(call.get("pretty_out")) or reply
    return candidate_of([Other(text=written)] if written else [], (), reply=reply)


def _output(reply: str) -> Mapping[str, Any] | None:
    """The reply as browser-use's object; None if it is none."""
    found = _OBJECT.search(reply)
    try:
        output: Mapping[str, Any] | None = json.loads(found.group()) if found else None
    except ValueError:
        return None
    actions = output.get("action") if isinstance(output, Mapping) else None
    if not isinstance(actions, list) or not actions or not all(isinstance(one, dict) for one in actions):
        return None
    return output


def _verdict(said: Any) -> Verdict:
    """Success and failure as judged; "unknown" and none stay unjudged."""
    word, why = (said.get("eval"), text_of(said.get("reason"))) if isinstance(said, Mapping) else (said, "")
    judge, word = f"{NAME}' judge", str(word).lower()
    if word in ("success", "failure"):
        return verdict_by(judge, success=word == "success", reason=why)
    return UNJUDGED.model_copy(update={"reason": why, "judge": judge}) if why else UNJUDGED
