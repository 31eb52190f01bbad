"""Nouns from what logs have: lenient where a field is missing. What has no field here is kept as JSON (`log`)."""

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Step, Verdict
from bestofq.core.identity import key_of
from bestofq.core.observation import Box, Element, Observation, Screenshot, Task

Turn = tuple[Observation, Decision]
UNJUDGED = Verdict(reward=0.0, outcome="unjudged")
_ROLES = {"a": "link", "input": "textbox", "textarea": "textbox", "select": "combobox"}
_EMPTY: tuple[object, ...] = (None, "", [], {})


def episode_of(
    suite: str,
    goal: str,
    turns: Sequence[Turn],
    *,
    url: str = "",
    task: str = "",
    verdict: Verdict = UNJUDGED,
    final: Observation | None = None,
    rest: Mapping[str, Any] | None = None,
) -> Episode:
    """Return an episode without id, run, split and provenance: the import adds them. Its agent is the suite.

    Defaults: `url` is that of the first page with one, `task` is named by the goal and the url.
    """
    url = url or next((seen.url for seen, _ in turns if seen.url), "")
    task = task or f"{urlsplit(url).hostname or suite}--{key_of({'goal': goal, 'url': url})}"
    last = len(turns) - 1
    return Episode(
        id="",
        run="",
        agent=suite,
        task=Task(id=task, suite=suite, goal=goal, start_url=url, group=urlsplit(url).hostname),
        steps=tuple(Step(index=i, observation=o, decision=d, terminated=i == last) for i, (o, d) in enumerate(turns)),
        final=final,
        verdict=verdict,
        provenance=Provenance(version="", log=log_of(rest or {})),
    )


def page_of(text: str, elements: Iterable[Element] = (), **more: Any) -> Observation:
    return Observation(**{"url": "", "title": "", "text": text, "elements": tuple(elements), **more})


def verdict_by(judge: str, *, success: bool, reason: str = "", reward: float | None = None) -> Verdict:
    reward = float(success) if reward is None else reward
    return Verdict(reward=reward, outcome="success" if success else "failure", reason=reason, judge=judge)


def decision_of(rest: Mapping[str, Any], *candidates: Candidate) -> Decision:
    """The candidates of a step, the first one taken; most logs have one."""
    return Decision(candidates=candidates, scores=(0.0,) * len(candidates), chosen=0, log=log_of(rest))


def log_of(rest: Mapping[str, Any]) -> str | None:
    kept = {name: value for name, value in rest.items() if value not in _EMPTY}
    return json_of(kept) if kept else None


def json_in(text: str | bytes) -> Any:
    """ValueError if it is no JSON, or has thousands of open brackets. Half an emoji in it, which tools leave if they
    cut a text and no store can keep, becomes U+FFFD."""
    words = text.decode(json.detect_encoding(text), "replace") if isinstance(text, bytes) else text
    try:
        found = json.loads(words)
        if "\\ud" in words or "\\uD" in words:
            found = json.loads(json_of(found).encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return found
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error


def json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def taken(record: Any, *names: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """These fields of a record, as far as it has them, and the rest of it. TypeError if it is no object."""
    if not isinstance(record, Mapping):
        raise TypeError(f"expected an object, found {type(record).__name__}")
    rest = dict(record)
    return {name: rest.pop(name) for name in names if rest.get(name) is not None}, rest


def element_of(mark: Any, role: Any, name: Any, bounds: Any = None) -> Element | None:
    """An element by its tag or role; None if its number is no mark."""
    if not isinstance(mark, int) or mark < 1:
        return None
    tag, sides = str(role or "").lower(), ("x", "y", "width", "height")
    whole = isinstance(bounds, Mapping) and all(isinstance(bounds.get(side), int | float) for side in sides)
    box = Box(*(bounds[side] for side in sides)) if whole else None
    return Element(mark=mark, role=_ROLES.get(tag, tag) or "element", name=" ".join(str(name or "").split()), box=box)


def text_of(content: Any) -> str:
    """The words of a message's content: a text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    found = [part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else "" for part in parts]
    return "\n".join(text for text in found if isinstance(text, str) and text)


def picture_of(source: Any, folder: Path) -> Screenshot | None:
    """A picture by its file, from the log's folder on, or by a `data:` address; None if there is none to be read."""
    if not isinstance(source, str) or not source:
        return None
    try:
        inline = source.startswith("data:")
        data = base64.b64decode(source.partition(",")[2] + "==") if inline else (folder / source).read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            found = {"media_type": Image.MIME.get(image.format or ""), "width": image.width, "height": image.height}
        return Screenshot(sha256=hashlib.sha256(data).hexdigest(), data=data, **found)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
