"""The booking site on loopback: every page of `pages.py` as plain HTML, and a record of each visit.

A visit has its own root, `http://127.0.0.1:port/v/<token>/`, so that visits in one browser do not meet. Rewards are
worked out from the records, never from what a page says.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bestofq.core.observation import Task
from bestofq.envs.booking.markup import Button, Choice, Field, Form, Line, Link, Node, Page
from bestofq.envs.booking.pages import NOT_FOUND
from bestofq.envs.booking.suite import Suite
from bestofq.envs.booking.visits import Visit
from bestofq.envs.serving import serve_app

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:1rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
div{margin:.4rem 0}a{color:#b3261e;text-decoration:none;margin-right:.5rem}a:hover{text-decoration:underline}
body>div:first-of-type{font-size:1.4rem;font-weight:600}
button{font:inherit;padding:.3rem 1rem;border:0;border-radius:.4rem;background:#b3261e;color:#fff;cursor:pointer}
span::before{content:attr(data-label);display:inline-block;width:6rem}
input,select{font:inherit;padding:.25rem .5rem;min-width:14rem;border:1px solid #b8c0cc;border-radius:.4rem}
"""
_FRESH = {"cache-control": "no-store"}  # going back shows the page as it is now


class Site:
    """Serves the sites of a suite. `open_visit` gives the root URL of a new visit."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self._visits: dict[str, Visit] = {}
        self.url = ""  # http://127.0.0.1:port, once served
        self.app = Starlette(
            routes=[
                Route("/v/{token}{path:path}", self._get),
                Route("/v/{token}{path:path}", self._post, methods=["POST"]),
            ]
        )

    def open_visit(self, task: Task) -> str:
        """The root of a new visit, without its last `/`."""
        root = f"{self.url}/v/{secrets.token_urlsafe(9)}"
        self.put(root, self.suite.visit(task))
        return root

    def visit(self, root: str) -> Visit:
        """The record of a visit as it is now."""
        return self._visits[_token(root)]

    def put(self, root: str, visit: Visit) -> None:
        """Sets a visit's record: at its beginning, or to an earlier one of its own."""
        self._visits[_token(root)] = visit

    def close_visit(self, root: str) -> None:
        self._visits.pop(_token(root), None)

    async def _get(self, request: Request) -> Response:
        token, url = _address(request)
        visit = self._visits.get(token)
        if visit is None:
            return HTMLResponse(to_html(NOT_FOUND, f"/v/{token}"), status_code=404)
        self._visits[token], page = self.suite.server(visit.split).get(visit, url)
        return HTMLResponse(to_html(page, f"/v/{token}"), status_code=404 if page.missing else 200, headers=_FRESH)

    async def _post(self, request: Request) -> Response:
        token, url = _address(request)
        visit = self._visits.get(token)
        if visit is None:
            return HTMLResponse(to_html(NOT_FOUND, f"/v/{token}"), status_code=404)
        sent = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self._visits[token], url = self.suite.server(visit.split).post(visit, url, sent)
        return RedirectResponse(f"/v/{token}{url}", status_code=303)


def _token(url: str) -> str:
    return urlsplit(url).path.split("/")[2]


def _address(request: Request) -> tuple[str, str]:
    """A request's visit, and the address within it."""
    query = f"?{request.url.query}" if request.url.query else ""
    return request.path_params["token"], f"{request.path_params['path'] or '/'}{query}"


def to_html(page: Page, root: str) -> str:
    """A page as HTML that a browser reads as the very text `markup.render` writes."""
    body = "\n".join(_form(part, root) if isinstance(part, Form) else _line(part, root) for part in page.parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{body}</body></html>'
    )


def _form(form: Form, root: str) -> str:
    hidden = "".join(f'<input type="hidden" name="{key}" value="{escape(value)}">' for key, value in form.hidden)
    lines = "\n".join(_line(line, root, again=root + form.again) for line in form.lines)
    method = "post" if form.post else "get"
    return f'<form novalidate method="{method}" action="{escape(root + form.action)}">{hidden}{lines}</form>'


def _line(line: Line, root: str, *, again: str = "") -> str:
    return f"<div>{' '.join(_node(node, root, again) for node in line)}</div>"


def _node(node: Node, root: str, again: str) -> str:
    match node:
        case str():
            return escape(node)
        case Link():
            return f'<a href="{escape(root + node.to)}">{escape(node.name)}</a>'
        case Button():
            return f"<button>{escape(node.name)}</button>"
        case Field():
            named = f'type="{node.kind}" name="{node.key}" aria-label="{escape(node.name)}"'
            return _labelled(node.name, f'<input {named} value="{escape(node.value)}" autocomplete="off">')
        case Choice():
            options = "".join(
                f'<option value="{escape(value)}"{" selected" if value == node.value else ""}>{escape(shown)}</option>'
                for value, shown in node.options
            )
            change = f"this.form.action='{again}';this.form.submit()"
            named = f'name="{node.key}" aria-label="{escape(node.name)}" autocomplete="off"'
            return _labelled(node.name, f'<select {named} onchange="{escape(change)}">{options}</select>')


def _labelled(name: str, html: str) -> str:
    """With a label that is drawn and not text of the page, where the control's own name stands already."""
    return f'<span data-label="{escape(name)}">{html}</span>'


@asynccontextmanager
async def serve(suite: Suite) -> AsyncIterator[Site]:
    """The site on a free loopback port of this event loop, until the context ends."""
    site = Site(suite)
    async with serve_app(site.app) as site.url:
        yield site
