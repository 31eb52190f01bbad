"""Chat logs with tool calls: conversations in OpenAI's or Anthropic's form, a JSON line each, and inspect's logs, as
`inspect log dump` writes them, an episode a sample."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.decision import Candidate, Episode, Verdict
from bestofq.core.observation import Observation
from bestofq.interop import nouns
from bestofq.interop.actions import Call, call_of, candidate_of, elements_in, spoken
from bestofq.interop.blocks import messages_of_blocks

Json = Mapping[str, Any]
_ATTACHED = "attachment://"  # stands for a long text or a picture, kept once in the sample
_SCORES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partly, incorrect, no answer
_INSTRUCTIONS = ("system", "developer")


def conversation(record: Any, file: Path) -> Episode:
    """`{"messages": [...]}`, or the list of messages alone. ValueError, LookupError or TypeError if it is none."""
    own, rest = ({"messages": record}, {}) if isinstance(record, list) else nouns.taken(record, "messages")
    messages = [one for each in own["messages"] for one in messages_of_blocks(each)]
    turns, final = turns_of(messages, file, heard, parse_reply)
    rest["system"] = _said(messages, *_INSTRUCTIONS) or rest.get("system")
    return nouns.episode_of("chat", goal_of(messages), turns, final=final, rest=rest)


def turns_of(
    messages: Sequence[Json],
    file: Path,
    look: Callable[[Sequence[Json], Path], Observation],
    parse: Callable[[Json, Observation, bool], Candidate],
) -> tuple[list[nouns.Turn], Observation | None]:
    """Return a turn for each reply, and the page after the last one.

    `look` makes a page of the messages before a reply. `parse` makes a candidate of the reply, the page, and whether it
    is the last message.
    """
    turns: list[nouns.Turn] = []
    since = 0
    for number, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            asked = messages[since : number - 1]
            seen = look(asked, file)
            others = ({name: value for name, value in one.items() if name != "content"} for one in asked)
            kept = {"messages": [one for one in others if {*one} != {"role"}]}
            turns.append((seen, nouns.decision_of(kept, parse(message, seen, number == len(messages)))))
            since = number
    return turns, look(messages[since:], file) if turns and messages[since:] else None


def goal_of(messages: Sequence[Json]) -> str:
    return next(iter(_said(messages, "user")), "")


def _said(messages: Sequence[Json], *roles: str) -> list[str]:
    return [nouns.text_of(one.get("content")) for one in messages if one.get("role") in roles]


def heard(messages: Sequence[Json], file: Path) -> Observation:
    """What the user and the tools said since the last reply, and the last picture among it."""
    others = [one for one in messages if one.get("role") not in _INSTRUCTIONS]
    text = "\n".join(filter(None, (nouns.text_of(one.get("content")) for one in others)))
    parts = [part for one in others if isinstance(content := one.get("content"), list) for part in content]
    urls = (part.get("image_url", part.get("image")) for part in parts if isinstance(part, Mapping))
    shots = (nouns.picture_of(url.get("url") if isinstance(url, Mapping) else url, file.parent) for url in urls)
    shot = next((shot for shot in reversed([*shots]) if shot is not None), None)
    return nouns.page_of(text, elements_in(text), screenshot=shot)


def parse_reply(message: Json, seen: Observation, last: bool) -> Candidate:
    """The action of a reply, and its thought: the model's reasoning, and what it says with a call."""
    words, parts = nouns.text_of(content := message.get("content")), content if isinstance(content, list) else []
    calls = message.get("tool_calls") or filter(None, [message.get("function_call")])  # that of earlier versions
    actions = [_call(one).action for one in calls]
    reasoning = [one.get("reasoning") for one in (*parts, message) if isinstance(one, Mapping)]
    thought = nouns.text_of([message.get("reasoning_content"), *reasoning, words if actions else ""])
    return candidate_of(actions or [spoken(words, last)], seen.elements, reply=message, thought=thought)


def _call(one: Json) -> Call:
    """Name and arguments are in `function` or in the call itself, or name and input are in `custom`. inspect has the
    name in `function` and the arguments in the call itself."""
    if isinstance(custom := one.get("custom"), Mapping):
        return call_of(custom.get("name"), {"input": custom.get("input")})
    function = one.get("function") or one
    own = function if isinstance(function, Mapping) else {"name": function, **one}
    return call_of(own.get("name"), own.get("arguments"))


def sample(record: Any, file: Path) -> Episode:
    """A decision for each call of the model; if it gave several choices they are its candidates, the first taken. A
    call that begins with other words than the first one is not the agent's: a scorer's, say. LookupError without an
    attachment that a message names."""
    own, rest = nouns.taken(record, "events", "scores", "messages", "events_data")
    pooled, kept = nouns.taken(own.get("events_data", {}), "messages")
    attached = {f"{_ATTACHED}{name}": held for name, held in (rest.get("attachments") or {}).items()}
    events = [_with_input(event, pooled.get("messages", ())) for event in own.get("events", ())]
    begun = next(filter(None, map(_first_message, events)), None)
    calls = [event for event in events if begun and _first_message(event) == begun]
    turns: list[nouns.Turn] = []
    for number, event in enumerate(calls, 1):
        messages = event.get("input") or []
        since = max((n for n, one in enumerate(messages, 1) if one.get("role") == "assistant"), default=0)
        seen = heard(_whole(messages[since:], attached), file)
        choices = [_whole(choice["message"], attached) for choice in (event.get("output") or {}).get("choices") or ()]
        if choices:
            offered = (parse_reply(one, seen, number == len(calls)) for one in choices)
            left = {name: value for name, value in event.items() if name != "input"}
            turns.append((seen, nouns.decision_of(left, *offered)))
    others = [event for event in events if not begun or _first_message(event) != begun]  # the calls hold the messages
    rest |= {"scores": own.get("scores"), "events": others, "events_data": kept}
    said = _whole(calls[0].get("input") or [] if calls else own.get("messages", []), attached)
    return nouns.episode_of("inspect", goal_of(said), turns, verdict=_verdict(own.get("scores", {})), rest=rest)


def _with_input(event: Json, pool: Sequence[Json]) -> Json:
    """The event with its input. Later versions keep only the input's places in the sample's pool of messages."""
    spans = event.get("input_refs")
    return {**event, "input": [pool[n] for begin, end in spans for n in range(begin, end)]} if spans else event


def _whole(part: Any, attached: Json) -> Any:
    """Messages with their attachments where they belong."""
    if isinstance(part, str):
        return attached[part] if part.startswith(_ATTACHED) else part
    if isinstance(part, Mapping):
        return {name: _whole(value, attached) for name, value in part.items()}
    return [_whole(one, attached) for one in part] if isinstance(part, list) else part


def _first_message(event: Json) -> tuple[Any, str] | None:
    """Who speaks first in a call of the model, and what is said; None for any other event."""
    first = (event.get("input") or [None])[0] if event.get("event") == "model" else None
    return None if first is None else (first.get("role"), nouns.text_of(first.get("content")))


def _verdict(scores: Json) -> Verdict:
    """The first scorer's, by its name, if its value is correct, incorrect or a number from 0 to 1."""
    for name, score in scores.items():
        value, rest = (score.get("value"), score) if isinstance(score, Mapping) else (score, {})
        number = _SCORES.get(value) if isinstance(value, str) else value
        if isinstance(number, int | float) and 0 <= number <= 1:
            reason = nouns.text_of(rest.get("explanation"))
            return nouns.verdict_by(name, success=number == 1, reason=reason, reward=number)
    return nouns.UNJUDGED
