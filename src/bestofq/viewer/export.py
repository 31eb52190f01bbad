"""The viewer's pages as files that open from disk: without a server, without a network.

    index.html          tables and figures, where each row comes from
    pages/              runs, episodes step by step, search trees
    tables/, figures/   for papers and other programs
    screenshots/, assets/

The pages are those that `bestofq view` serves; links between them are made relative, and
what was not written is no link.
"""

import re
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from bestofq.core.files import write_whole
from bestofq.reports.report import Report
from bestofq.reports.table import write_tables
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.viewer.app import RESULTS, application
from bestofq.viewer.pages import ASSETS, ENDINGS, address, figure_file, tree_address

EPISODES = 40  # that can be stepped through
_KEPT = {"/runs": (), "/run": ("run", "page"), "/episodes": ("page",), "/trees": ("page",)}
"""Pages of lists, and the parameters that their addresses may have."""
_LINK = re.compile(r' (href|src|action)="(/[^"]*)"')  # texts of pages cannot match: their quotes are escaped


def export(store: Store, found: Report, folder: Path, *, title: str, max_episodes: int = EPISODES) -> Path:
    """Write a report and what it is about to `folder`, made if missing; return its `index.html`. At most
    `max_episodes` episodes can be stepped through, whole tasks spread evenly; the others are listed only."""
    write_tables(found.tables, folder / "tables", ENDINGS)
    for figure in found.figures:
        write_whole(folder / "figures" / figure_file(figure), figure.svg, sync=False)
    for name, (text, _) in ASSETS.items():
        write_whole(folder / "assets" / name, text, sync=False)
    chosen = choose(found.episodes, max_episodes)
    _Export(store, found, folder, title, {episode.id for episode in chosen}).write()
    return folder / "index.html"


def choose(episodes: Sequence[EpisodeSummary], at_most: int) -> list[EpisodeSummary]:
    """The episodes to step through: whole tasks, spread evenly over all tasks, the first try of each agent."""
    tasks: dict[tuple[str, str], dict[str, EpisodeSummary]] = {}
    for episode in episodes:
        tasks.setdefault(episode.key[:2], {}).setdefault(episode.agent, episode)
    agents = max((len(task) for task in tasks.values()), default=1)
    count = min(len(tasks), max(1, at_most // agents))
    every = [list(tasks.values())[i * len(tasks) // count] for i in range(count)] if count else []
    return [episode for task in every for episode in task.values()][: max(0, at_most)]


class _Export:
    """Pages from `RESULTS` on, each once, along the links that are kept."""

    def __init__(self, store: Store, found: Report, folder: Path, title: str, episodes: set[str]) -> None:
        self._store, self._folder, self._episodes = store, folder, episodes
        self._found = [RESULTS]
        self._known = {RESULTS}  # the same, for looking up: there can be many
        self._trees = {unescape(tree_address(tree)) for tree in found.trees}
        self._app = application(store, name=title, report=found, replayed=len(episodes))

    def write(self) -> None:
        for found in self._found:  # which grows
            file = self._folder / _file(found)
            text = _LINK.sub(partial(self._link, file.parent), self._get(found).decode())
            write_whole(file, text, sync=False)  # a disk takes long for each of hundreds of pages

    def _get(self, link: str) -> bytes:
        parts = urlsplit(link)
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": parts.path, "root_path": "", "headers": []}
        scope |= {"app": self._app, "query_string": parts.query.encode(), "path_params": {}}
        matches = ((route, route.matches(scope)) for route in self._app.routes)
        route, given = next((route, given) for route, (match, given) in matches if match == Match.FULL)
        assert isinstance(route, Route)
        response: Response = route.endpoint(Request({**scope, **given}))
        return bytes(response.body)

    def _link(self, here: Path, link: re.Match[str]) -> str:
        """The attribute as it is in a file; nothing where what it leads to is not written."""
        to, up = unescape(link[2]), "" if here == self._folder else "../"
        path = urlsplit(to).path
        if path.startswith("/assets/"):
            return f' {link[1]}="{up}assets/{path.rpartition("/")[2]}"'
        if path.startswith("/screenshots/"):
            return self._picture(link[1], path.rpartition("/")[2], up)
        kept = self._kept(to) if link[1] == "href" else None
        if kept is None:
            return ""
        if kept not in self._known:
            self._known.add(kept)
            self._found.append(kept)
        return f' href="{up}{_file(kept)}"'

    def _picture(self, attribute: str, name: str, up: str) -> str:
        to = self._folder / "screenshots" / name
        if not to.exists():
            if (found := self._store.screenshots.find_picture(name)) is None:
                return ""
            write_whole(to, found[0], sync=False)
        return f' {attribute}="{up}screenshots/{name}"'

    def _kept(self, link: str) -> str | None:
        """The address by which a page is written; None if it is not."""
        parts = urlsplit(link)
        query = dict(parse_qsl(parts.query))
        if parts.path == RESULTS or link in self._trees:
            return link
        if parts.path.startswith("/episode/"):
            if parts.path.rpartition("/")[2] not in self._episodes:
                return None
            step = query.get("step", "1")
            return address(parts.path, step=None if step == "1" else step)
        allowed = _KEPT.get(parts.path)
        return None if allowed is None or not query.keys() <= {*allowed} else address(parts.path, **query)


def _file(address: str) -> str:
    if address == RESULTS:
        return "index.html"
    parts = urlsplit(address)
    words = "-".join([parts.path.strip("/") or "runs", *(value for _, value in parse_qsl(parts.query))])
    if parts.path.startswith("/episode/"):  # ids and steps are fit for a file's name
        return f"pages/{words.replace('/', '-')}.html"
    name = re.sub(r"[^\w.-]+", "-", words, flags=re.ASCII)[:60]
    return f"pages/{name}-{sha256(address.encode()).hexdigest()[:8]}.html"
