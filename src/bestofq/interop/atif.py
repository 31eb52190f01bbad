"""ATIF 1.7, the Agent Trajectory Interchange Format (Harbor, NeMo, ADP): one episode a file. It has an outcome only if
we wrote it.

We write it without loss: what ATIF has no field for, such as all candidates of each step, is in `extra.bestofq`. A page
is the observation of the step that led to it. The first page belongs to the first step, in which the user states the
goal. Pictures are files, named relative to the trajectory's own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_core import from_json

from bestofq.core.actions import Answer
from bestofq.core.decision import Episode, Step
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation, Screenshot
from bestofq.core.usage import Usage, token_count
from bestofq.interop.actions import call_of, candidate_of, elements_in, spoken
from bestofq.interop.nouns import Turn, decision_of, episode_of, page_of, picture_of, taken, text_of
from bestofq.interop.rows import total

VERSION = "ATIF-v1.7"
OURS = "bestofq"
_PLAYED = ("reward", "terminated", "truncated")  # of a step, besides its decision
_METRICS = {"tokens_in": "prompt_tokens", "tokens_out": "completion_tokens", "usd": "cost_usd"}
Record = dict[str, Any]


def episode(record: Any, file: Path) -> Episode:
    """One of ours as it was. Else the goal is what the user says first. Steps copied from an earlier trajectory are no
    decisions; their words and last page are seen at the first one. ValueError, LookupError, TypeError if it is none."""
    if isinstance(record, Mapping) and (ours := episode_in(record, file.parent)) is not None:
        return ours
    own, rest = taken(record, "steps")
    turns: list[Turn] = []
    goal, said, others = "", "", []
    page = blank = page_of("")
    for number, step in enumerate(own["steps"], 1):
        known, left = taken(step, "source", "message", "reasoning_content", "tool_calls")
        words = text_of(known.get("message"))
        results = (left.get("observation") or {}).get("results") or ()
        if known.get("source") != "agent" or left.get("is_copied_context"):
            goal = goal or words * (known.get("source") == "user")
            said = f"{said}\n{words}".strip()
            page = _page(results, file.parent, blank) if results else page
            if (shot := _picture(known.get("message"), file.parent)) is not None:
                page = page.model_copy(update={"screenshot": shot})
            others.append(step)
            continue
        seen = _heard(page, said)
        calls = known.get("tool_calls", ())
        actions = [call_of(call.get("function_name"), call.get("arguments")).action for call in calls]
        candidate = candidate_of(
            actions or [spoken(words, number == len(own["steps"]))],
            seen.elements,
            thought=text_of(known.get("reasoning_content")) or words,
            reply={"message": known.get("message"), "tool_calls": calls},
        )
        decision = decision_of(left, candidate).model_copy(update={"usage": _usage(left.get("metrics"))})
        turns.append((seen, decision))
        page, said = _page(results, file.parent, blank), ""
    final = page if turns and (page := _heard(page, said)) != blank else None
    return episode_of("atif", goal, turns, final=final, rest={**rest, "steps": others})


def _heard(page: Observation, said: str) -> Observation:
    return page.model_copy(update={"text": f"{page.text}\n{said}".strip()})


def _page(results: Any, folder: Path, blank: Observation) -> Observation:
    """What tools gave back: the page if one shows it, else their words; and the last picture."""
    texts, page = [], blank
    for one in results:
        web, shot = (one.get("extra") or {}).get("web"), _picture(one.get("content"), folder)
        if isinstance(web, Mapping):
            texts.append(text_of(web.get("axtree")) or text_of(one.get("content")))
            shot = picture_of(web.get("image_observation"), folder) or shot
            page = page.model_copy(update={"url": text_of(web.get("url")) or page.url})
        else:
            texts.append(text_of(one.get("content")))
        page = page.model_copy(update={"screenshot": shot or page.screenshot})
    text = "\n".join(filter(None, texts))
    return page.model_copy(update={"text": text, "elements": elements_in(text)})


def _picture(content: Any, folder: Path) -> Screenshot | None:
    """The last picture of a message's content."""
    sources = [part.get("source") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    paths = (source.get("path") for source in reversed(sources) if isinstance(source, Mapping))
    return next(filter(None, (picture_of(path, folder) for path in paths)), None)


def _usage(metrics: Any) -> tuple[Usage, ...]:
    """What a step's call of the model used, where that was counted."""
    said = metrics if isinstance(metrics, Mapping) else {}
    tokens_in, tokens_out = (token_count(said.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if tokens_in is None and tokens_out is None:
        return ()
    usd = said.get("cost_usd")
    return (Usage(role="proposer", tokens_in=tokens_in or 0, tokens_out=tokens_out or 0, calls=1, usd=usd),)


class Exported(Episode):
    """An episode that `trajectory` wrote."""

    repeat: int | None = Field(default=None, ge=0, description="its pass over the tasks; None: not known")


def trajectory(episode: Episode, pictures: Mapping[str, str] | None = None, repeat: int | None = None) -> Record:
    """An episode as a trajectory. `pictures`: names of picture files by SHA-256; `repeat`: its pass over the tasks."""
    seen = [step.observation for step in episode.steps]
    pages = [_result(page, pictures or {}) for page in (*seen, *filter(None, [episode.final]))]
    goal = {"step_id": 1, "source": "user", "message": episode.task.goal, **_to_observation(pages[:1])}
    turns = [_turn(step, pages[number : number + 1]) for number, step in enumerate(episode.steps, 1)]
    metrics = {f"total_{name}": value for name, value in _metrics(episode.usage).items()}
    return {
        "schema_version": VERSION,
        "session_id": episode.run or episode.id,
        "trajectory_id": episode.id,
        "agent": {"name": episode.agent, "version": episode.provenance.version or "unknown"},
        "steps": [goal, *turns],
        "final_metrics": {**metrics, "total_steps": 1 + len(turns)},
        "extra": {OURS: {**_body(episode, {"steps", "final"}), "repeat": repeat}},
    }


def episode_in(record: Any, folder: Path) -> Exported | None:
    """The episode that `trajectory` wrote, with those pictures that are found from `folder` on; None if another tool
    wrote it. ValueError or LookupError if it was changed so that it is none."""
    if (known := _ours(record)) is None:
        return None
    pages = [_written_page(step, folder) for step in record["steps"]]
    decided = [own for step in record["steps"][1:] if (own := _ours(step)) is not None]
    if len(pages) != len(decided) + 1 or None in pages[:-1]:
        raise ValueError(f"of its {len(pages) - 1} steps {len(decided)} have candidates, and not each its page")
    steps = [
        {"index": index, "observation": page, **{name: own.pop(name) for name in _PLAYED}, "decision": own}
        for index, (page, own) in enumerate(zip(pages, decided, strict=False))
    ]
    # JSON knows no tuples and no infinity: validated as text would be, while pages are nouns already
    return Exported.model_validate({**known, "steps": steps, "final": pages[-1]}, strict=False)


def _turn(step: Step, pages: list[Record]) -> Record:
    decision, candidate = step.decision, step.decision.candidate
    body = _body(candidate.action)
    call = {"tool_call_id": f"call-{step.index + 1}", "function_name": body.pop("kind"), "arguments": body}
    metrics = {"metrics": _metrics(decision.usage)} if decision.usage else {}
    played = {name: getattr(step, name) for name in _PLAYED}
    return {
        "step_id": step.index + 2,
        "source": "agent",
        "message": candidate.action.text if isinstance(candidate.action, Answer) else candidate.label,
        **({"reasoning_content": candidate.thought} if candidate.thought else {}),
        "tool_calls": [call],
        **_to_observation([{"source_call_id": call["tool_call_id"], **page} for page in pages]),
        **metrics,
        "extra": {OURS: {**_body(decision), **played}},
    }


def _result(page: Observation, pictures: Mapping[str, str]) -> Record:
    content: Any = page.text
    if (shot := page.screenshot) and (path := pictures.get(shot.sha256)):
        source = {"media_type": shot.media_type, "path": path}
        content = [{"type": "text", "text": page.text}, {"type": "image", "source": source}]
    return {"content": content, "extra": {OURS: _body(page, {"text"})}}


def _written_page(step: Any, folder: Path) -> Observation | None:
    for one in (step.get("observation") or {}).get("results") or ():
        if (known := _ours(one)) is not None:
            found = Observation.model_validate({**known, "text": text_of(one["content"])})
            read = _picture(one["content"], folder)
            shot = found.screenshot and read and found.screenshot.model_copy(update={"data": read.data})
            return found.model_copy(update={"screenshot": shot})
    return None


def _to_observation(results: list[Record]) -> Record:
    return {"observation": {"results": results}} if results else {}


def _metrics(usage: Any) -> Record:
    return {_METRICS[name]: value for name, value in total(usage).items() if name in _METRICS and value is not None}


def _ours(record: Any) -> Record | None:
    known = (record.get("extra") or {}).get(OURS)
    return dict(known) if isinstance(known, Mapping) else None


def _body(noun: FrozenModel, without: set[str] | None = None) -> Record:
    body: Record = from_json(noun.model_dump_json(exclude_none=True, exclude=without))
    return body
