"""Templates to answers: Jinja escapes every value, and a page that did not change is not sent again."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from typing import Any
from urllib.parse import urlencode

from jinja2 import pass_context
from jinja2.runtime import Context
from starlette.requests import Request
from starlette.responses import Response

from bestofq.core.actions import action_text
from bestofq.core.observation import Observation
from bestofq.core.words import plural
from bestofq.reports.costs import spent_by_role
from bestofq.reports.naming import shown
from bestofq.reports.svg import PALETTE, STYLE, Figure, inline, load_templates
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary
from bestofq.viewer.steps import is_inside, pieces, viewport

_TEMPLATES = load_templates("bestofq.viewer")


def _asset(name: str) -> str:
    return files("bestofq.viewer").joinpath("assets", name).read_text("utf-8")


def address(path: str, /, **query: object) -> str:
    """A local address; parameters that are None or empty are left out."""
    given = {key: str(value) for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def number(value: float | None, digits: int = 3) -> str:
    """`–` where there is none."""
    return "–" if value is None or not isfinite(value) else f"{value:.{digits}f}"


def moment(iso: str | None) -> str:
    """ISO 8601 as `2026-01-31 12:05:09`."""
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S}" if iso else "–"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@pass_context
def describe_status(page: Context, episode: EpisodeSummary) -> str:
    """What an episode came to; without a verdict its status, `left running` where nobody writes the store any more."""
    if episode.status == "running" and not page["written"]:
        return "left running"
    return episode.outcome or episode.status


def mood(outcome: str | None) -> str:
    known = {"success": "good", "failure": "bad", "blocked": "bad", "impossible": "bad", "running": "live"}
    return known.get(outcome or "running", "odd")


def tree_address(tree: TreeSummary) -> str:
    return address("/tree", run=tree.run, suite=tree.suite, task=tree.task)


def figure_file(figure: Figure) -> str:
    """The figure's file; an agent's name in it may hold anything, and more than a file system takes."""
    name = re.sub(r"[^\w.@-]+", "-", figure.name)
    return (f"{name[:60]}-{sha256(name.encode()).hexdigest()[:8]}" if len(name) > 60 else name) + ".svg"


def picture_address(store: Store, seen: Observation) -> str | None:
    """Where a page's screenshot is served; None if there is none, or its file is gone."""
    shot = seen.screenshot
    return f"/screenshots/{store.screenshots.path(shot).name}" if shot and store.screenshots.has(shot) else None


ENDINGS = ("csv", "json", "md")  # the files of a table in an exported report
ASSETS = {  # what pages load, by name: text and media type
    "viewer.css": (PALETTE + STYLE + _asset("viewer.css"), "text/css"),
    "viewer.js": (_asset("viewer.js"), "text/javascript"),
}
ASSETS_HASH = sha256("".join(text for text, _ in ASSETS.values()).encode()).hexdigest()[:12]

_TEMPLATES.globals.update(address=address, assets=f"/assets/{ASSETS_HASH}", endings=ENDINGS)
_WORDS = (number, moment, duration, mood, tree_address, describe_status, plural, figure_file)
_FILTERS = (*_WORDS, shown, is_inside, pieces, viewport, spent_by_role, action_text, inline)
_TEMPLATES.filters.update({function.__name__: function for function in _FILTERS})


def page(request: Request, template: str, context: Mapping[str, Any], *, status: int = 200) -> Response:
    """The template as an answer, or 304 to a browser that holds the same."""
    state = request.app.state
    around: dict[str, Any] = {
        "store": state.name,
        "written": state.store.is_written,
        "offline": state.report is not None,
        "picture": partial(picture_address, state.store),
    }
    body = _TEMPLATES.get_template(template).render({**around, **context}).encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache, private"}
    if status == 200 and request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers, "text/html; charset=utf-8")
