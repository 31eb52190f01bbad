"""Chat logs with tool calls: conversations of the OpenAI form, an episode a line; and inspect's logs, as
`inspect log dump` writes them, an episode a sample."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.decision import Candidate, Decision, Episode, Verdict
from bestofq.core.observation import Observation
from bestofq.interop.actions import Call, call_of, candidate_of, spoken
from bestofq.interop.files import Malformed, json_files, json_lines
from bestofq.interop.nouns import (
    UNJUDGED,
    decision_of,
    elements_in,
    episode_of,
    json_of,
    log_of,
    picture_of,
    taken,
    task_of,
    text_of,
)

Turn = tuple[Observation, Decision]
_SCORES = {"C": 1.0, "I": 0.0, True: 1.0, False: 0.0}  # inspect's letters for correct and incorrect


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_lines(path, conversation)


def read_inspect(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, sample, many="samples")


def conversation(record: Any, file: Path) -> Episode:
    """`{"messages": [...]}`, or the list of messages alone. ValueError, LookupError or TypeError where it is none."""
    own, rest = ({"messages": record}, {}) if isinstance(record, list) else taken(record, "messages")
    messages = own["messages"]
    turns: list[Turn] = []
    since = 0
    spoke = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    for number in spoke:
        seen = _page(messages[since:number], file)
        candidate = _candidate(messages[number], seen, last=number == len(messages) - 1)
        turns.append((seen, decision_of(candidate, {})))
        since = number + 1
    final = _page(messages[since:], file) if messages[since:] and turns else None
    return _episode("chat", messages, turns, final=final, rest={**rest, "system": _said(messages, "system")})


def sample(record: Any, file: Path) -> Episode:
    """A decision for each call of the model; where it gave several choices they are its candidates, the first taken."""
    own, rest = taken(record, "events", "scores", "messages")
    calls = [event for event in own.get("events", ()) if event.get("event") == "model"]
    turns: list[Turn] = []
    for number, event in enumerate(calls, 1):
        messages = event.get("input") or []
        since = max((n for n, one in enumerate(messages, 1) if one.get("role") == "assistant"), default=0)
        seen = _page(messages[since:], file)
        choices = [choice["message"] for choice in (event.get("output") or {}).get("choices") or ()]
        if choices:
            offered = tuple(_candidate(one, seen, last=number == len(calls)) for one in choices)
            left = {name: value for name, value in event.items() if name != "input"}
            turns.append((seen, Decision(candidates=offered, scores=(0.0,) * len(offered), chosen=0, log=log_of(left))))
    others = [event for event in own.get("events", ()) if event.get("event") != "model"]  # the calls hold the messages
    rest |= {"scores": own.get("scores"), "events": others}
    said = calls[0].get("input") or [] if calls else own.get("messages", [])
    return _episode("inspect", said, turns, verdict=_verdict(own.get("scores", {})), rest=rest)


def _episode(kind: str, messages: Sequence[Any], turns: Sequence[Turn], **more: Any) -> Episode:
    """The goal is the first thing the user says."""
    goal = next(iter(_said(messages, "user")), "")
    return episode_of(kind, task_of(kind, goal, next((seen.url for seen, _ in turns if seen.url), "")), turns, **more)


def _said(messages: Sequence[Any], role: str) -> list[str]:
    return [text_of(one.get("content")) for one in messages if one.get("role") == role]


def _page(messages: Sequence[Mapping[str, Any]], file: Path) -> Observation:
    """What the user and the tools said since the last reply, and the last picture among it."""
    heard = [one for one in messages if one.get("role") != "system"]
    text = "\n".join(filter(None, (text_of(one.get("content")) for one in heard)))
    parts = [part for one in heard if isinstance(content := one.get("content"), list) for part in content]
    urls = (part.get("image_url", part.get("image")) for part in parts if isinstance(part, Mapping))
    shots = (picture_of(url.get("url") if isinstance(url, Mapping) else url, file.parent) for url in urls)
    shot = next((shot for shot in reversed([*shots]) if shot is not None), None)
    return Observation(url="", title="", text=text, elements=elements_in(text), screenshot=shot)


def _candidate(message: Mapping[str, Any], seen: Observation, *, last: bool) -> Candidate:
    words = text_of(message.get("content"))
    actions = [_call(one).action for one in message.get("tool_calls") or ()]
    said = {"thought": words} if actions else {}
    return candidate_of(actions or [spoken(words, last=last)], seen.elements, reply=json_of(message), **said)


def _call(one: Mapping[str, Any]) -> Call:
    """OpenAI has name and arguments in `function`; inspect has the name there, and the arguments beside it."""
    function = one.get("function")
    own = function if isinstance(function, Mapping) else {"name": function, **one}
    return call_of(own.get("name"), own.get("arguments"))


def _verdict(scores: Mapping[str, Any]) -> Verdict:
    """The first scorer's, by its name, where its value is correct, incorrect or a number from 0 to 1."""
    for name, score in scores.items():
        value, rest = (score.get("value"), score) if isinstance(score, Mapping) else (score, {})
        number = _SCORES.get(value, value) if isinstance(value, str | bool | int | float) else None
        if isinstance(number, int | float) and 0 <= number <= 1:
            outcome = "success" if number == 1 else "failure"
            return Verdict(reward=number, outcome=outcome, reason=text_of(rest.get("explanation")), judge=name)
    return UNJUDGED
