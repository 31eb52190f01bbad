"""The viewer as an ASGI application: runs, their tasks, episodes and steps, two episodes side by side, search trees."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bestofq.core.errors import BestOfQError, DataError
from bestofq.reports.costs import spent_by_role
from bestofq.reports.naming import place
from bestofq.reports.report import ALPHA, THRESHOLD, Report, gather
from bestofq.reports.rows import Selection
from bestofq.reports.stats import group_by
from bestofq.reports.table import ORIGIN_COLUMNS
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.viewer.episodes import episode_page, side_by_side
from bestofq.viewer.filters import PagePart, filter_context, parse_filter, report_filter, require_parameter, share, text
from bestofq.viewer.guard import ViewerGuard
from bestofq.viewer.home import Pairs, find_comparison
from bestofq.viewer.pages import ASSETS, ASSETS_HASH, page
from bestofq.viewer.trees import branches

EPISODES = 50  # a page
TASKS = 25
TREES = 100
LATEST = 8  # runs and episodes on the first page
RESULTS = "/results"
Context = Mapping[str, Any]
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


def viewer_app(store: Store, *, name: str, token: str | None = None, host: str | None = None) -> ViewerGuard:
    """Pages over a read-only store: for who knows the token, else for this machine, by loopback or `host`."""
    return ViewerGuard(application(store, name=name), token=token, host=host)


def application(store: Store, *, name: str, report: Report | None = None, replayed: int = 0) -> Starlette:
    """The pages; with a report they are about what it read alone, and of its episodes so many are written as files."""
    shown = {
        "/": ("home", _home),
        "/runs": ("runs", _runs),
        RESULTS: ("results", _results),
        "/run": ("run", _run),
        "/episodes": ("episodes", _episodes),
        "/task": ("task", _task),
        "/episode/{id}": ("episode", _episode),
        "/compare": ("compare", _compare),
        "/trees": ("trees", _trees),
        "/tree": ("tree", _tree),
    }
    routes = [Route(path, _page(template, context)) for path, (template, context) in shown.items()]
    routes += [Route("/screenshots/{name}", _screenshot), Route("/assets/{hash}/{name}", _asset)]
    handlers = dict.fromkeys((HTTPException, BestOfQError, Exception), _error_page)
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state = State({"store": store, "name": name, "report": report, "replayed": replayed})
    return app


def _page(template: str, context: Callable[[Request, Store], Context]) -> Callable[[Request], Response]:
    return lambda request: page(request, f"{template}.jinja", context(request, request.app.state.store))


def _size(request: Request, of_page: int) -> int:
    """How many a page of a list shows; files are searched by the browser, so that they hold more."""
    return of_page if request.app.state.report is None else 1000


def _results(request: Request, store: Store) -> Context:
    report = request.app.state.report
    run, split, named = (text(request, name) for name in ("run", "split", "baseline"))
    if report is None:
        selection = Selection(runs=None if run is None else [run], split=split, baseline=named)
        try:
            report = gather(store, selection)
        except DataError as error:
            raise HTTPException(404, f"There are no results yet: {error}.") from error
    return {
        "report": report,
        "goals": store.trees.goals(report.trees),
        "run": run,
        "origin_columns": ORIGIN_COLUMNS,
        "replayed": request.app.state.replayed,
    }


def _home(request: Request, store: Store) -> Context:
    found = _runs(request, store)
    latest = store.catalogue.episodes(EpisodeFilter(), limit=LATEST)
    return {
        **found,
        "runs": found["runs"][:LATEST],
        "comparison": find_comparison(store, None, found["lines"]),
        "latest": latest,
        "goals": store.catalogue.goals(e.id for e in latest),
    }


def _runs(request: Request, store: Store) -> Context:
    only, every = report_filter(request).runs, store.catalogue.agents()
    lines = group_by(every, lambda line: line.run)
    trees = group_by(store.trees.summaries(), lambda tree: tree.run)
    runs = [
        (name, sorted(lines.get(name, ()), key=lambda line: place(line.agent)), trees.get(name, []))
        for name in store.catalogue.runs()
        if only is None or name in only
    ]
    return {
        "runs": runs,
        "lines": every,
        "count": len(runs),
        "episodes": sum(line.episodes for _, of_run, _ in runs for line in of_run),
        "trees": sum(len(of_run) for _, _, of_run in runs),
    }


def _run(request: Request, store: Store) -> Context:
    name = require_parameter(request, "run")
    record = next((run for run in store.runs() if run.name == name), None)
    if record is None:
        raise HTTPException(404, f"There is no run {name!r} in this store.")
    filters, differing = store.catalogue.found(parse_filter(request)), text(request, "differing") is not None
    part = PagePart.of(request, store.catalogue.count_tasks(filters, differing=differing), _size(request, TASKS))
    tasks = store.catalogue.tasks(filters, differing=differing, offset=part.offset, limit=part.size)
    only, every = filters.agents, store.catalogue.agents(run=name)
    lines = sorted((line for line in every if only is None or line.agent in only), key=lambda line: place(line.agent))
    trees = store.trees.summaries(run=name)
    return {
        "comparison": find_comparison(store, name, lines) if only is None else None,
        "run": record,
        "config": json.dumps(record.config, indent=2, ensure_ascii=False),
        "lines": lines,
        "agents": [a for a in dict.fromkeys(line.agent for line in lines) if filters.agent in (None, a)],
        "tasks": tasks,
        "part": part,
        "trees": trees,
        "some": trees[:TREES],
        "goals": store.trees.goals([] if lines else trees[:TREES]),
        "differing": differing,
        **filter_context(store, filters),
    }


def _episodes(request: Request, store: Store) -> Context:
    filters = store.catalogue.found(parse_filter(request))
    if filters.run is not None and filters.run not in store.catalogue.runs():
        raise HTTPException(404, f"There is no run {filters.run!r} in this store.")
    part = PagePart.of(request, store.catalogue.count(filters), _size(request, EPISODES))
    episodes = store.catalogue.episodes(filters, offset=part.offset, limit=part.size)
    goals = store.catalogue.goals(e.id for e in episodes)
    return {"episodes": episodes, "goals": goals, "part": part, **filter_context(store, filters)}


def _task(request: Request, store: Store) -> Context:
    suite, task, run = require_parameter(request, "suite"), require_parameter(request, "task"), text(request, "run")
    if not (found := store.catalogue.tasks(EpisodeFilter(suite=suite, task=task, run=run))):
        raise HTTPException(404, f"There is no episode of a task {task!r} of {suite} in this store.")
    [(asked, episodes)] = found
    episodes = sorted(episodes, key=lambda episode: (episode.run, place(episode.agent)))
    trees = store.trees.summaries(run=run, suite=suite, task=task)
    return {"task": asked, "episodes": episodes, "trees": trees, "run": run}


def _episode(request: Request, store: Store) -> Context:
    among = store.catalogue.found(parse_filter(request))
    return episode_page(store, request.path_params["id"], text(request, "step"), among)


def _compare(request: Request, store: Store) -> Context:
    left, right, run, one, other = (text(request, name) for name in ("left", "right", "run", "one", "other"))
    view, found = None, None
    if left and right:  # among others of the same agents, if both are of one run
        view = side_by_side(store, left, right)
        first, second = view["left"].summary, view["right"].summary
        one, other, run = first.agent, second.agent, first.run if first.run == second.run else None
    if view is None or run is not None:
        found = find_comparison(store, run)
    pairs = Pairs.of(found, one, other) if found else None
    if view is None and pairs is not None and pairs.differing:
        view = side_by_side(store, *(episode.id for episode in pairs.differing[0]))
    goals = store.catalogue.goals(left.id for left, _ in pairs.differing) if pairs else {}
    return {"view": view, "pairs": pairs, "goals": goals}


def _trees(request: Request, store: Store) -> Context:
    run, only = text(request, "run"), report_filter(request).runs
    every = [tree for tree in store.trees.summaries(run=run) if only is None or tree.run in only]
    part = PagePart.of(request, len(every), _size(request, TREES))
    some = every[part.offset : part.offset + part.size]
    return {"trees": some, "goals": store.trees.goals(some), "part": part, "run": run}


def _tree(request: Request, store: Store) -> Context:
    report = request.app.state.report
    usual = (ALPHA, THRESHOLD) if report is None else (report.alpha, report.threshold)
    alpha, threshold = share(request, "alpha", usual[0]), share(request, "threshold", usual[1])
    run, suite, task = (require_parameter(request, name) for name in ("run", "suite", "task"))
    if (tree := store.trees.load(run, suite, task)) is None:
        raise HTTPException(404, f"There is no search tree of task {task!r} of {suite} in run {run!r}.")
    drawn, spent = branches(tree, alpha=alpha, threshold=threshold), spent_by_role(tree.usage)
    return {"run": run, "tree": tree, "drawn": drawn, "spent": spent, "alpha": alpha, "threshold": threshold}


def _screenshot(request: Request) -> Response:
    if (found := request.app.state.store.screenshots.find_picture(request.path_params["name"])) is None:
        raise HTTPException(404, "The store does not hold this screenshot.")
    return Response(found[0], headers=_FOREVER, media_type=found[1])


def _asset(request: Request) -> Response:
    found = ASSETS.get(request.path_params["name"])
    if found is None or request.path_params["hash"] != ASSETS_HASH:
        raise HTTPException(404, "The viewer has no such file.")
    return Response(found[0], headers=_FOREVER, media_type=found[1])


def _error_page(request: Request, error: Exception) -> Response:
    code = 500
    if isinstance(error, HTTPException):
        known = {"Not Found": "There is no such page.", "Method Not Allowed": "This viewer takes no such requests."}
        code, sentence = error.status_code, known.get(error.detail, error.detail)
    elif isinstance(error, BestOfQError):
        sentence = str(error)
    else:
        sentence = f"The viewer failed ({type(error).__name__}); its terminal says more."
    return page(request, "error.jinja", {"sentence": sentence, "code": code}, status=code)
