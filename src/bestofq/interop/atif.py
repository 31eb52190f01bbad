"""ATIF 1.7, the Agent Trajectory Interchange Format (Harbor, NeMo, ADP): one episode a file. It has no
outcome, except where we wrote it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestofq.core.decision import Decision, Episode
from bestofq.core.observation import Observation
from bestofq.interop.actions import call_of, candidate_of, spoken
from bestofq.interop.atif_writing import episode_in
from bestofq.interop.browsergym import elements_in
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import decision_of, episode_of, picture_of, taken, task_of, text_of

NAME = "atif"


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, episode)


def episode(record: Any, file: Path) -> Episode:
    """One of ours as it was. Else the goal is the first thing the user says. ValueError, LookupError or TypeError where
    it is none."""
    if isinstance(record, Mapping) and (ours := episode_in(record, file.parent)) is not None:
        return ours
    own, rest = taken(record, "steps")
    turns: list[tuple[Observation, Decision]] = []
    goal, others = "", []
    seen = blank = Observation(url="", title="", text="", elements=())
    for number, step in enumerate(own["steps"], 1):
        known, left = taken(step, "source", "message", "reasoning_content", "tool_calls")
        words = text_of(known.get("message"))
        if known.get("source") != "agent":
            goal = goal or words * (known.get("source") == "user")
            seen = seen.model_copy(update={"text": f"{seen.text}\n{words}".strip()})
            others.append(step)
            continue
        calls = known.get("tool_calls", ())
        actions = [call_of(call.get("function_name"), call.get("arguments")).action for call in calls]
        last = number == len(own["steps"])
        candidate = candidate_of(
            actions or [spoken(words, last=last)],
            seen.elements,
            thought=text_of(known.get("reasoning_content")) or words,
            reply={"message": known.get("message"), "tool_calls": calls},
        )
        turns.append((seen, decision_of(left, candidate)))
        results = (left.get("observation") or {}).get("results") or ()
        seen = _page(results, file, blank)
    final = seen if turns and seen != blank else None
    task = task_of(NAME, goal, next((o.url for o, _ in turns if o.url), ""))
    return episode_of(NAME, task, turns, final=final, rest={**rest, "steps": others})


def _page(results: Any, file: Path, blank: Observation) -> Observation:
    """What tools gave back: the page where one shows it, else their words."""
    texts, page = [], blank
    for one in results:
        web = (one.get("extra") or {}).get("web")
        if isinstance(web, Mapping):
            texts.append(text_of(web.get("axtree")) or text_of(one.get("content")))
            shot = picture_of(web.get("image_observation"), file.parent)
            page = page.model_copy(update={"url": text_of(web.get("url")) or page.url, "screenshot": shot})
        else:
            texts.append(text_of(one.get("content")))
    text = "\n".join(filter(None, texts))
    return page.model_copy(update={"text": text, "elements": elements_in(text)})
