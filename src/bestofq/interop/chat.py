"""Chat logs with tool calls, in the OpenAI form: a conversation a JSON line, which is an episode."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.decision import Candidate, Decision, Episode
from bestofq.core.observation import Observation
from bestofq.interop.actions import Call, call_of, candidate_of, spoken
from bestofq.interop.browsergym import elements_in
from bestofq.interop.files import Malformed, json_lines
from bestofq.interop.nouns import decision_of, episode_of, picture_of, taken, task_of, text_of

Turn = tuple[Observation, Decision]


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_lines(path, conversation)


def conversation(record: Any, file: Path) -> Episode:
    """`{"messages": [...]}`, or the list of messages alone. ValueError, LookupError or TypeError where it is none."""
    own, rest = ({"messages": record}, {}) if isinstance(record, list) else taken(record, "messages")
    messages = own["messages"]
    turns: list[Turn] = []
    since = 0
    spoke = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    for number in spoke:
        seen = heard(messages[since:number], file)
        candidate = parse_reply(messages[number], seen, last=number == len(messages) - 1)
        turns.append((seen, decision_of({"messages": _beside(messages[since:number])}, candidate)))
        since = number + 1
    final = heard(messages[since:], file) if messages[since:] and turns else None
    return spoken_episode("chat", messages, turns, final=final, rest={**rest, "system": _said(messages, "system")})


def spoken_episode(kind: str, messages: Sequence[Any], turns: Sequence[Turn], **more: Any) -> Episode:
    """The goal is the first thing the user says."""
    goal = next(iter(_said(messages, "user")), "")
    return episode_of(kind, task_of(kind, goal, next((seen.url for seen, _ in turns if seen.url), "")), turns, **more)


def _said(messages: Sequence[Any], role: str) -> list[str]:
    return [text_of(one.get("content")) for one in messages if one.get("role") == role]


def heard(messages: Sequence[Mapping[str, Any]], file: Path) -> Observation:
    """What the user and the tools said since the last reply, and the last picture among it."""
    others = [one for one in messages if one.get("role") != "system"]
    text = "\n".join(filter(None, (text_of(one.get("content")) for one in others)))
    parts = [part for one in others if isinstance(content := one.get("content"), list) for part in content]
    urls = (part.get("image_url", part.get("image")) for part in parts if isinstance(part, Mapping))
    shots = (picture_of(url.get("url") if isinstance(url, Mapping) else url, file.parent) for url in urls)
    shot = next((shot for shot in reversed([*shots]) if shot is not None), None)
    return Observation(url="", title="", text=text, elements=elements_in(text), screenshot=shot)


def _beside(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What user and tools sent beside words and pictures."""
    kept = ({name: value for name, value in one.items() if name != "content"} for one in messages)
    return [one for one in kept if {*one} != {"role"}]


def parse_reply(message: Mapping[str, Any], seen: Observation, *, last: bool) -> Candidate:
    words = text_of(message.get("content"))
    actions = [_call(one).action for one in message.get("tool_calls") or ()]
    said = {"thought": words} if actions else {}
    return candidate_of(actions or [spoken(words, last=last)], seen.elements, reply=message, **said)


def _call(one: Mapping[str, Any]) -> Call:
    """OpenAI has name and arguments in `function`, or name and input in `custom`; inspect has the name in `function`,
    and the arguments beside it."""
    if isinstance(custom := one.get("custom"), Mapping):
        return call_of(custom.get("name"), {"input": custom.get("input")})
    function = one.get("function")
    own = function if isinstance(function, Mapping) else {"name": function, **one}
    return call_of(own.get("name"), own.get("arguments"))
