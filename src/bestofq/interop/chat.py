"""Chat logs with tool calls: conversations in the OpenAI form, a JSON line each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.decision import Candidate, Episode
from bestofq.core.observation import Observation
from bestofq.interop.actions import Call, call_of, candidate_of, elements_in, spoken
from bestofq.interop.nouns import Turn, decision_of, episode_of, page_of, picture_of, taken, text_of

Json = Mapping[str, Any]


def conversation(record: Any, file: Path) -> Episode:
    """`{"messages": [...]}`, or the list of messages alone. ValueError, LookupError or TypeError if it is none."""
    own, rest = ({"messages": record}, {}) if isinstance(record, list) else taken(record, "messages")
    messages: Sequence[Json] = own["messages"]
    turns: list[Turn] = []
    since = 0
    for number, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            asked = messages[since : number - 1]
            seen = heard(asked, file)
            others = ({name: value for name, value in one.items() if name != "content"} for one in asked)
            kept = {"messages": [one for one in others if {*one} != {"role"}]}
            turns.append((seen, decision_of(kept, parse_reply(message, seen, number == len(messages)))))
            since = number
    final = heard(messages[since:], file) if turns and messages[since:] else None
    goal = next(iter(_said(messages, "user")), "")
    return episode_of("chat", goal, turns, final=final, rest={**rest, "system": _said(messages, "system")})


def _said(messages: Sequence[Json], role: str) -> list[str]:
    return [text_of(one.get("content")) for one in messages if one.get("role") == role]


def heard(messages: Sequence[Json], file: Path) -> Observation:
    """What the user and the tools said since the last reply, and the last picture among it."""
    others = [one for one in messages if one.get("role") != "system"]
    text = "\n".join(filter(None, (text_of(one.get("content")) for one in others)))
    parts = [part for one in others if isinstance(content := one.get("content"), list) for part in content]
    urls = (part.get("image_url") for part in parts if isinstance(part, Mapping))
    shots = (picture_of(url.get("url") if isinstance(url, Mapping) else url, file.parent) for url in urls)
    shot = next((shot for shot in reversed([*shots]) if shot is not None), None)
    return page_of(text, elements_in(text), screenshot=shot)


def parse_reply(message: Json, seen: Observation, last: bool) -> Candidate:
    words = text_of(message.get("content"))
    actions = [_call(one).action for one in message.get("tool_calls") or ()]
    said = {"thought": words} if actions else {}
    return candidate_of(actions or [spoken(words, last)], seen.elements, reply=message, **said)


def _call(one: Json) -> Call:
    """Name and arguments are in `function` or in the call itself, or name and input are in `custom`."""
    if isinstance(custom := one.get("custom"), Mapping):
        return call_of(custom.get("name"), {"input": custom.get("input")})
    function = one.get("function") or one
    return call_of(function.get("name"), function.get("arguments"))
