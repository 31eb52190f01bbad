"""browser-use's history, an episode a file. Its judge's word is the verdict; its own `success` is not."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.core.decision import Candidate, Episode, Verdict
from bestofq.core.observation import Element
from bestofq.interop.actions import Call, call_of, candidate_of
from bestofq.interop.nouns import (
    UNJUDGED,
    Turn,
    decision_of,
    element_of,
    episode_of,
    page_of,
    picture_of,
    taken,
    text_of,
    verdict_by,
)

_CURRENT = re.compile(r"^Current tab: (\w+)$", re.M)
_ELEMENT = re.compile(
    r"^(\t*)(?:\|[A-Z]+[^|\n]*\|)?\*?\[(\d+)\]\*?<(\w+)([^\n]*)((?:\n\1\t+(?!\|[A-Z]|\*?\[\d)[^\t\n].*)*)", re.M
)
"""`[7]<button id=x />`, and its words on the lines below it that are further in, up to the next element. Before it may
stand what holds it, as `|SHADOW(open)|`."""
_NAMED = re.compile(r" (?:aria-label|placeholder|title|alt|value)=(.+?)(?= [\w-]+=| ?/?>|$)")
"""What an element without words is called by its attributes."""
_INLINE = re.compile(r">\s*([^<>\n]*[^<>\s])\s*(?:/>|</\w+>)\s*$")
"""Earlier versions write an element's words in its own line: `[7]<a >Kettle />`, `[7]<a>Kettle</a>`."""


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none."""
    own, rest = taken(record, "history")
    turns: list[Turn] = []
    results: list[Any] = []  # of the step before
    goal = ""
    for step in own["history"]:
        known, left = taken(step, "model_output", "state", "state_message")
        message = text_of(known.get("state_message"))
        goal, page = goal or goal_in(message), page_in(message)
        output = known.get("model_output", {})
        calls = calls_of(output)
        state, unread = taken(known.get("state", {}), "url", "title", "tabs", "interacted_element", "screenshot")
        shown = {one.mark: one for one in elements_on(page)}
        touched = _touched_elements(calls, state.get("interacted_element", ()))
        tabs = (tab.get("title", "") if isinstance(tab, Mapping) else tab for tab in state.get("tabs", ()))
        seen = page_of(
            page or message,
            (shown | {mark: one for mark, one in touched.items() if one.name or mark not in shown}).values(),
            url=state.get("url", ""),
            title=state.get("title", ""),
            screenshot=picture_of(unread.get("screenshot_path"), file.parent)
            or picture_of(f"data:,{text_of(state.get('screenshot')).rpartition(',')[2]}", file.parent),
            tabs=tuple(map(str, tabs)),
            error="; ".join(said for one in results if (said := text_of(one.get("error")))) or None,
            notices=tuple(said for one in results if (said := text_of(one.get("extracted_content")))),
        )
        left["state_message"] = message.replace(page, "") if page else None
        kept = {**left, "state": {**unread, "interacted_element": state.get("interacted_element")}}
        turns.append((seen, decision_of(kept, candidate_of_output(output, calls, seen.elements))))
        results = left.get("result") or []
    verdict = verdict_of(results[-1].get("judgement") if results else None)
    return episode_of("browser-use", goal, turns, verdict=verdict, rest=rest)


def goal_in(message: str) -> str:
    """The user's request in a message of the agent's; empty if there is none."""
    return _within("user_request", message)


def page_in(message: str) -> str:
    """What the browser showed, as the agent put it into words; empty if it did not."""
    return _within("browser_state", message)


def _within(tag: str, message: str) -> str:
    words, end, _ = message.partition(f"<{tag}>")[2].partition(f"</{tag}>")
    return words.strip() if end else ""


def tab_in(page: str) -> dict[str, str]:
    """The address and the title of the tab that is shown. Its address is the title if it has none of its own."""
    current = _CURRENT.search(page)
    found = current and re.compile(rf"^Tab {current[1]}: (\S+) - ([^\n]*)", re.M).search(page, current.end())
    return {"url": found[1], "title": found[1] if found[2] in found[1] else found[2]} if found else {}


def elements_on(page: str) -> tuple[Element, ...]:
    """Those that the agent's words for a page number."""
    found = (
        element_of(int(mark), tag, words.strip() or _name_in(attributes))
        for _, mark, tag, attributes, words in _ELEMENT.findall(page)
    )
    return tuple(filter(None, found))


def _name_in(attributes: str) -> str:
    named = _INLINE.search(attributes) or _NAMED.search(attributes)
    return named.group(1).strip("'\"") if named else ""


def calls_of(output: Mapping[str, Any]) -> list[Call]:
    return [call_of(name, arguments) for one in output.get("action") or () for name, arguments in one.items()]


def candidate_of_output(output: Mapping[str, Any], calls: Sequence[Call], elements: Sequence[Element]) -> Candidate:
    """A reply with `thinking`, `memory`, `next_goal` and `action`; earlier versions have them in `current_state`."""
    state = {**(output.get("current_state") or {}), **output}
    words = {"thought": "thinking", "note": "memory", "explanation": "next_goal"}
    said = {ours: text_of(state.get(theirs)) for ours, theirs in words.items()}
    said["thought"] = said["thought"] or text_of(state.get("evaluation_previous_goal"))
    return candidate_of([call.action for call in calls], elements, **said, reply=output)


def _touched_elements(calls: Sequence[Call], touched: Sequence[Any]) -> dict[int, Element]:
    """Those that were acted on, by the numbers of the actions."""
    found: dict[int, Element] = {}
    for call, one in zip(calls, touched, strict=False):
        if isinstance(one, Mapping):
            about = one.get("attributes") or {}
            said = (one.get("ax_name"), *map(about.get, ("aria-label", "placeholder", "title", "alt", "name")))
            role, name = one.get("node_name") or one.get("tag_name"), next(filter(None, said), "")
            if (element := element_of(call.arguments.get("index"), role, name, one.get("bounds"))) is not None:
                found[element.mark] = element
    return found


def verdict_of(said: Any) -> Verdict:
    """What the judge replied; unjudged if that says nothing."""
    if not isinstance(said, Mapping) or not isinstance(right := said.get("verdict"), bool):
        return UNJUDGED
    verdict = verdict_by("browser-use's judge", success=right, reason=text_of(said.get("failure_reason")))
    others = {"impossible_task": "impossible", "reached_captcha": "blocked"}
    why = next((outcome for name, outcome in others.items() if said.get(name) and not right), verdict.outcome)
    return verdict.model_copy(update={"outcome": why})
