"""A local site on loopback: its pages as plain HTML, and a record of each visit.

A visit has its own root, `http://127.0.0.1:port/v/<token>/`, so that visits in one browser do not meet. Rewards are
worked out from the records, never from what a page says.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from importlib.resources import files
from typing import Generic
from urllib.parse import parse_qsl, urlsplit

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bestofq.core.observation import Task
from bestofq.envs.local_site.rules import Rules, ViewT, VisitT
from bestofq.envs.serving import serve_app

_FRESH = {"cache-control": "no-store"}  # going back shows the page as it is now
_JINJA = Environment(autoescape=False)
_JINJA.filters["e"] = escape
_JINJA.globals["kind"] = lambda part: type(part).__name__
_HTML = _JINJA.from_string(files(__package__).joinpath("page.jinja").read_text("utf-8"))
"""A page as HTML that a browser reads as the very text `page.render` writes; `root` stands before its addresses."""


class Site(Generic[VisitT, ViewT]):
    """Serves a site to many visits. `open_visit` gives the root of a new one."""

    def __init__(self, rules: Rules[VisitT, ViewT]) -> None:
        self.rules = rules
        self._visits: dict[str, tuple[Task, VisitT]] = {}
        self.url = ""  # http://127.0.0.1:port, once served
        self.app = Starlette(routes=[Route("/v/{token}{path:path}", self._answer, methods=["GET", "POST"])])

    def open_visit(self, task: Task) -> str:
        """The root of a new visit, without its last `/`."""
        root = f"{self.url}/v/{secrets.token_urlsafe(9)}"
        self.put(root, task, self.rules.visit(task))
        return root

    def visit(self, root: str) -> VisitT:
        return self._visits[_token(root)][1]

    def put(self, root: str, task: Task, visit: VisitT) -> None:
        """Sets a visit's record: at its beginning, or to an earlier one."""
        self._visits[_token(root)] = task, visit

    def close_visit(self, root: str) -> None:
        self._visits.pop(_token(root), None)

    async def _answer(self, request: Request) -> Response:
        token, url = request.path_params["token"], request.path_params["path"] or "/"
        url += f"?{request.url.query}" if request.url.query else ""
        if token not in self._visits:
            return HTMLResponse("<p>This visit is over.</p>", status_code=404)
        task, visit = self._visits[token]
        server = self.rules.server(task.split)
        if request.method == "POST":
            sent = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
            visit, url = server.post(visit, url, sent)
            self._visits[token] = task, visit
            return RedirectResponse(f"/v/{token}{url}", status_code=303)
        visit, page = server.get(visit, url)
        self._visits[token] = task, visit
        html = _HTML.render(
            page=page, root=f"/v/{token}", style=self.rules.style, kind=lambda part: type(part).__name__
        )
        return HTMLResponse(html, status_code=404 if page.missing else 200, headers=_FRESH)


def _token(url: str) -> str:
    return urlsplit(url).path.split("/")[2]


@asynccontextmanager
async def serve(rules: Rules[VisitT, ViewT]) -> AsyncIterator[Site[VisitT, ViewT]]:
    """The site on a free loopback port of this event loop, until the context ends."""
    site = Site(rules)
    async with serve_app(site.app) as site.url:
        yield site
