"""The shop as a web site on loopback: every page of `pages.py` as plain HTML, and a record of what each visit bought.

A visit has its own root, `http://127.0.0.1:port/v/<token>/`, as WebShop has its session in the path, so that visits in
one browser do not meet. Rewards are worked out from the site's own records, never from what a page says.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html import escape
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bestofq.core.observation import Split, Task
from bestofq.envs.serving import serve_app
from bestofq.envs.webshop.pages import Bought, Item, Link, Node, Page, SearchBox, Shop
from bestofq.envs.webshop.suite import Suite
from bestofq.envs.webshop.urls import buy_url, from_url, to_url

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
div{margin:.45rem 0}a{color:#0b57d0;text-decoration:none}a:hover{text-decoration:underline}
a[role=radio]{border:1px solid #b8c0cc;border-radius:1rem;padding:.1rem .7rem;margin-right:.2rem;color:#1b1f24}
a[role=radio][aria-checked=true]{background:#0b57d0;border-color:#0b57d0;color:#fff}
button{font:inherit;padding:.25rem .9rem;border:0;border-radius:.4rem;background:#ffb300;cursor:pointer}
input{font:inherit;padding:.25rem .5rem;width:24rem;max-width:60vw;border:1px solid #b8c0cc;border-radius:.4rem}
form{display:inline}div:first-of-type{font-weight:600}
"""


@dataclass
class Visit:
    """One episode's stay: which task, and what it bought."""

    task: Task
    bought: Item | None = field(default=None)


class Site:
    """Serves the shops of a suite. `open_visit` gives the root URL of a new visit."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._visits: dict[str, Visit] = {}
        self.url = ""  # http://127.0.0.1:port, once served
        self.app = Starlette(
            routes=[
                Route("/v/{token}/buy/{product_id}", self._buy, methods=["POST"]),
                Route("/v/{token}{path:path}", self._show),
            ]
        )

    def open_visit(self, task: Task) -> tuple[str, Visit]:
        """The start URL of a new visit, and its record, which fills as the visitor acts."""
        token = secrets.token_urlsafe(9)
        visit = self._visits[token] = Visit(task)
        return f"{self.url}/v/{token}/", visit

    def reopen_visit(self, url: str, visit: Visit) -> Visit:
        """Goes on from an earlier record of a visit; the record, which fills anew."""
        again = self._visits[_token(url)] = replace(visit)
        return again

    def close_visit(self, url: str) -> None:
        self._visits.pop(_token(url), None)

    def reward(self, visit: Visit) -> float:
        """What the visit has earned, in [0, 1]; 0 before it bought anything."""
        return 0.0 if visit.bought is None else self._suite.reward(visit.task, visit.bought)

    def _shop(self, split: Split) -> Shop:
        return self._suite.shop(split)

    async def _show(self, request: Request) -> Response:
        visit = self._visits.get(request.path_params["token"])
        if visit is None:
            return HTMLResponse("<p>This visit is over.</p>", status_code=404)
        shop = self._shop(visit.task.split)
        path = request.path_params["path"] or "/"
        view = from_url(f"{path}?{request.url.query}", shop.catalogue)
        if visit.bought is not None:
            view = Bought(item=visit.bought)
        if view is None:
            return HTMLResponse("<p>There is no such page in this shop.</p>", status_code=404)
        return HTMLResponse(to_html(shop.page(view), f"/v/{request.path_params['token']}"))

    async def _buy(self, request: Request) -> Response:
        token = request.path_params["token"]
        visit = self._visits.get(token)
        if visit is None:
            return HTMLResponse("<p>This visit is over.</p>", status_code=404)
        url = f"/item/{request.path_params['product_id']}?{request.url.query}"
        item = from_url(url, self._shop(visit.task.split).catalogue)
        if not isinstance(item, Item):
            return HTMLResponse("<p>There is no such product in this shop.</p>", status_code=404)
        if visit.bought is None:
            visit.bought = item
        return RedirectResponse(f"/v/{token}{to_url(Bought(item=item))}", status_code=303)


def view_url(url: str) -> str:
    """The part of a visit's URL behind its root: what `urls.from_url` reads."""
    parts = urlsplit(url)
    path = "/" + parts.path.removeprefix(f"/v/{_token(url)}").lstrip("/")
    return path + (f"?{parts.query}" if parts.query else "")


def _token(url: str) -> str:
    return urlsplit(url).path.split("/")[2]


def to_html(page: Page, root: str) -> str:
    """A page as HTML that a browser reads as the very text `text.render` writes."""
    body = "\n".join(f"<div>{_line(line, root)}</div>" for line in page.lines)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{body}</body></html>'
    )


def _line(line: tuple[Node, ...], root: str) -> str:
    html = " ".join(_node(node, root) for node in line)
    if any(isinstance(node, SearchBox) for node in line):
        return f'<form action="{root}/search">{html}</form>'
    return html


def _node(node: Node, root: str) -> str:
    match node:
        case str():
            return escape(node)
        case SearchBox():
            return f'<input type="search" name="q" autocomplete="off" aria-label="{escape(node.name)}">'
        case Link(name=name, to=Bought(item=item)):
            action = escape(root + buy_url(item))
            return f'<form method="post" action="{action}"><button>{escape(name)}</button></form>'
        case Link(name=name, role="button"):
            return f"<button>{escape(name)}</button>"
        case Link(name=name, to=to, role="radio", checked=checked):
            state = "true" if checked else "false"
            return f'<a role="radio" aria-checked="{state}" href="{escape(root + to_url(to))}">{escape(name)}</a>'
        case Link(name=name, to=to):
            return f'<a href="{escape(root + to_url(to))}">{escape(name)}</a>'


@asynccontextmanager
async def serve(suite: Suite) -> AsyncIterator[Site]:
    """The site on a free loopback port of this event loop, until the context ends."""
    site = Site(suite)
    async with serve_app(site.app) as site.url:
        yield site
