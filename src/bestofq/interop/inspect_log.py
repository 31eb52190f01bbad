"""inspect's logs, as `inspect log dump` writes them: an episode a sample."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestofq.core.decision import Episode, Verdict
from bestofq.interop.chat import Turn, heard, parse_reply, spoken_episode
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import UNJUDGED, decision_of, taken, text_of

_ATTACHED = "attachment://"  # stands for a long text or a picture, kept once in the sample
_SCORES = {"C": 1.0, "I": 0.0, True: 1.0, False: 0.0}  # its letters for correct and incorrect


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, sample, many="samples")


def sample(record: Any, file: Path) -> Episode:
    """A decision for each call of the model; where it gave several choices they are its candidates, the first taken. A
    call that begins with other words than the first one is not the agent's: a scorer's, say. LookupError without an
    attachment that a message names."""
    own, rest = taken(record, "events", "scores", "messages")
    attached = {f"{_ATTACHED}{name}": held for name, held in (rest.get("attachments") or {}).items()}
    events = own.get("events", ())
    begun = next(filter(None, map(_first_message, events)), None)
    calls = [event for event in events if begun and _first_message(event) == begun]
    turns: list[Turn] = []
    for number, event in enumerate(calls, 1):
        messages = event.get("input") or []
        since = max((n for n, one in enumerate(messages, 1) if one.get("role") == "assistant"), default=0)
        seen = heard(_whole(messages[since:], attached), file)
        choices = [_whole(choice["message"], attached) for choice in (event.get("output") or {}).get("choices") or ()]
        if choices:
            offered = (parse_reply(one, seen, last=number == len(calls)) for one in choices)
            left = {name: value for name, value in event.items() if name != "input"}
            turns.append((seen, decision_of(left, *offered)))
    others = [event for event in events if not begun or _first_message(event) != begun]  # the calls hold the messages
    rest |= {"scores": own.get("scores"), "events": others}
    said = _whole(calls[0].get("input") or [] if calls else own.get("messages", []), attached)
    return spoken_episode("inspect", said, turns, verdict=_verdict(own.get("scores", {})), rest=rest)


def _whole(part: Any, attached: Mapping[str, Any]) -> Any:
    """Messages with their attachments where they belong."""
    if isinstance(part, str):
        return attached[part] if part.startswith(_ATTACHED) else part
    if isinstance(part, Mapping):
        return {name: _whole(value, attached) for name, value in part.items()}
    return [_whole(one, attached) for one in part] if isinstance(part, list) else part


def _first_message(event: Mapping[str, Any]) -> tuple[Any, str] | None:
    """Who speaks first in a call of the model, and what is said; None for any other event."""
    first = (event.get("input") or [{}])[0] if event.get("event") == "model" else None
    return None if first is None else (first.get("role"), text_of(first.get("content")))


def _verdict(scores: Mapping[str, Any]) -> Verdict:
    """The first scorer's, by its name, where its value is correct, incorrect or a number from 0 to 1."""
    for name, score in scores.items():
        value, rest = (score.get("value"), score) if isinstance(score, Mapping) else (score, {})
        number = _SCORES.get(value, value) if isinstance(value, str | bool | int | float) else None
        if isinstance(number, int | float) and 0 <= number <= 1:
            outcome = "success" if number == 1 else "failure"
            return Verdict(reward=number, outcome=outcome, reason=text_of(rest.get("explanation")), judge=name)
    return UNJUDGED
