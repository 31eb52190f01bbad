"""ATIF 1.7, the Agent Trajectory Interchange Format (Harbor, NeMo, ADP): one episode a file. It has no
outcome, except where we wrote it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestofq.core.decision import Decision, Episode
from bestofq.core.observation import Observation, Screenshot
from bestofq.core.usage import Usage, token_count
from bestofq.interop.actions import call_of, candidate_of, spoken
from bestofq.interop.atif_writing import episode_in
from bestofq.interop.browsergym import elements_in
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import decision_of, episode_of, picture_of, taken, task_of, text_of

NAME = "atif"


def read(path: Path) -> Iterator[Episode | Malformed]:
    return json_files(path, episode)


def episode(record: Any, file: Path) -> Episode:
    """One of ours as it was. Else the goal is the first thing the user says. Steps copied from an earlier trajectory
    are no decisions of this one; their words and their last page are seen at its first. ValueError, LookupError or
    TypeError where it is none."""
    if isinstance(record, Mapping) and (ours := episode_in(record, file.parent)) is not None:
        return ours
    own, rest = taken(record, "steps")
    turns: list[tuple[Observation, Decision]] = []
    goal, said, others = "", "", []
    page = blank = Observation(url="", title="", text="", elements=())
    for number, step in enumerate(own["steps"], 1):
        known, left = taken(step, "source", "message", "reasoning_content", "tool_calls")
        words = text_of(known.get("message"))
        results = (left.get("observation") or {}).get("results") or ()
        if known.get("source") != "agent" or left.get("is_copied_context"):
            goal = goal or words * (known.get("source") == "user")
            said = f"{said}\n{words}".strip()
            page = _page(results, file, blank) if results else page
            if (shot := _picture(known.get("message"), file)) is not None:
                page = page.model_copy(update={"screenshot": shot})
            others.append(step)
            continue
        seen = _heard(page, said)
        calls = known.get("tool_calls", ())
        actions = [call_of(call.get("function_name"), call.get("arguments")).action for call in calls]
        last = number == len(own["steps"])
        candidate = candidate_of(
            actions or [spoken(words, last=last)],
            seen.elements,
            thought=text_of(known.get("reasoning_content")) or words,
            reply={"message": known.get("message"), "tool_calls": calls},
        )
        decision = decision_of(left, candidate).model_copy(update={"usage": _usage(left.get("metrics"))})
        turns.append((seen, decision))
        page, said = _page(results, file, blank), ""
    final = _heard(page, said)
    task = task_of(NAME, goal, next((o.url for o, _ in turns if o.url), ""))
    return episode_of(
        NAME, task, turns, final=final if turns and final != blank else None, rest={**rest, "steps": others}
    )


def _heard(page: Observation, said: str) -> Observation:
    """The page with what was said since."""
    return page.model_copy(update={"text": f"{page.text}\n{said}".strip()})


def _page(results: Any, file: Path, blank: Observation) -> Observation:
    """What tools gave back: the page where one shows it, else their words; and the last picture."""
    texts, page = [], blank
    for one in results:
        web, shot = (one.get("extra") or {}).get("web"), _picture(one.get("content"), file)
        if isinstance(web, Mapping):
            texts.append(text_of(web.get("axtree")) or text_of(one.get("content")))
            shot = picture_of(web.get("image_observation"), file.parent) or shot
            page = page.model_copy(update={"url": text_of(web.get("url")) or page.url})
        else:
            texts.append(text_of(one.get("content")))
        page = page.model_copy(update={"screenshot": shot or page.screenshot})
    text = "\n".join(filter(None, texts))
    return page.model_copy(update={"text": text, "elements": elements_in(text)})


def _picture(content: Any, file: Path) -> Screenshot | None:
    """The last of a content's pictures whose file is there."""
    sources = [part.get("source") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    paths = (source.get("path") for source in reversed(sources) if isinstance(source, Mapping))
    return next(filter(None, (picture_of(path, file.parent) for path in paths)), None)


def _usage(metrics: Any) -> tuple[Usage, ...]:
    """What a step's call of the model used, where that was counted."""
    said = metrics if isinstance(metrics, Mapping) else {}
    tokens_in, tokens_out = (token_count(said.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if tokens_in is None and tokens_out is None:
        return ()
    usd = said.get("cost_usd")
    return (Usage(role="proposer", tokens_in=tokens_in or 0, tokens_out=tokens_out or 0, calls=1, usd=usd),)
