"""A local site on loopback: its pages as plain HTML, and a record of each visit.

A visit has its own root, `http://127.0.0.1:port/v/<token>/`, so that visits in one browser do not meet.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from importlib.resources import files
from typing import Any, Generic
from urllib.parse import parse_qsl

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bestofq.core.observation import Task
from bestofq.envs.serving import serve_app
from bestofq_sites.local_site.rules import Rules, ViewT, VisitT

_FRESH = {"cache-control": "no-store"}  # going back shows the page as it is now
_JINJA = Environment(autoescape=False)
_JINJA.filters["e"] = escape
_JINJA.globals["kind"] = lambda part: type(part).__name__
_HTML = _JINJA.from_string(files(__package__).joinpath("page.jinja").read_text("utf-8"))
"""A page as HTML that a browser reads as the very text `page.render` writes; `root` stands before its addresses."""


class SiteProcess(Generic[VisitT, ViewT]):
    """Serves a site to many visits."""

    def __init__(self, rules: Rules[Any, VisitT, ViewT]) -> None:
        self.rules = rules
        self.visits: dict[str, tuple[Task, VisitT]] = {}  # the record of each, by its root without the last `/`
        self.url = ""  # http://127.0.0.1:port, once served
        self.app = Starlette(routes=[Route("/v/{token}{path:path}", self._answer, methods=["GET", "POST"])])

    def open_visit(self, task: Task) -> str:
        """The root of a new visit."""
        root = f"{self.url}/v/{secrets.token_urlsafe(9)}"
        self.visits[root] = task, self.rules.visit(task)
        return root

    async def _answer(self, request: Request) -> Response:
        path, url = f"/v/{request.path_params['token']}", request.path_params["path"] or "/"
        url += f"?{request.url.query}" if request.url.query else ""
        root = self.url + path
        if root not in self.visits:
            return HTMLResponse("<p>This visit is over.</p>", status_code=404)
        task, visit = self.visits[root]
        server = self.rules.server(task.split)
        if request.method == "POST":
            sent = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
            visit, url = server.post(visit, url, sent)
            self.visits[root] = task, visit
            return RedirectResponse(path + url, status_code=303)
        visit, page = server.get(visit, url)
        self.visits[root] = task, visit
        html = _HTML.render(page=page, root=path, style=self.rules.style)
        return HTMLResponse(html, status_code=404 if page.missing else 200, headers=_FRESH)


@asynccontextmanager
async def serve(rules: Rules[Any, VisitT, ViewT]) -> AsyncIterator[SiteProcess[VisitT, ViewT]]:
    """The site on a free loopback port of this event loop, until the context ends."""
    site = SiteProcess(rules)
    async with serve_app(site.app) as site.url:
        yield site
