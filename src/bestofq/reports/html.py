"""One self-contained HTML file: headline table, figures, and episodes to step through. It asks nothing of a network.

Everything that comes from a page, a model or a task is text: Jinja escapes it, the data block is JSON without `<`, `>`
and `&`, the script sets it by `textContent`, and the page's policy allows only its own script, known by its hash.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from bestofq.reports.costs import Prices, cost_table
from bestofq.reports.figures import (
    CurvePoint,
    FailureSplit,
    failure_split_svg,
    learning_curve_svg,
    pareto_svg,
    success_bars_svg,
)
from bestofq.reports.palette import PALETTE
from bestofq.reports.replay import Shelf, choose, replay
from bestofq.reports.rows import read_rows
from bestofq.reports.searches import search_table, telling_trees
from bestofq.reports.svg import STYLE
from bestofq.reports.table import ResultTable, result_table
from bestofq.reports.trees import search_tree_svg
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

TEMPLATES = Environment(
    loader=PackageLoader("bestofq.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_report(
    store: Store,
    path: Path,
    *,
    title: str,
    runs: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    suite: str | None = None,
    split: str | None = None,
    baseline: str | None = None,
    curve: Sequence[CurvePoint] | None = None,
    curve_baseline: tuple[str, float] | None = None,
    diagnostics: Mapping[str, FailureSplit] | None = None,
    prices: Prices | None = None,
    max_episodes: int = 40,
    max_picture_bytes: int = 12_000_000,
    pictures: str | None = None,
    max_trees: int = 6,
    alpha: float = 0.5,
    threshold: float = 0.2,
) -> Path:
    """Write the report of `runs` (None: all) to `path`, made with its folder, and return it.

    The choice of episodes and `baseline` are `result_table`'s, which also says when DataError is raised. At most
    `max_episodes` episodes can be replayed, with at most `max_picture_bytes` of pictures; the others are listed, and
    the file says so. With `pictures`, the name of a folder beside the file, all pictures are put there instead.
    `diagnostics` holds a failure split per agent (Fig. 3), `curve` the learning curve (Fig. 4), `curve_baseline` the
    name and success of the agent it is held against on the same tasks, `prices` what tokens cost that have no price in
    the store. Where the runs hold search trees, they are counted, and at most `max_trees` of them drawn, with Q and
    pairs at `alpha` and `threshold` (Agent Q, Eq. 10, Algorithm 1).
    """
    style, style_hash = page_style()
    named = [run.name for run in store.runs() if runs is None or run.name in runs]
    searches = _searches(store, named, max_trees, alpha, threshold)
    if searches["searches"] and not any(store.summaries(run=run) for run in named):
        bare = TEMPLATES.get_template("searches.html.jinja")
        return _written(path, bare.render(title=title, style=style, style_hash=style_hash, **searches))
    table = result_table(store, runs=runs, agents=agents, suite=suite, split=split, baseline=baseline)
    rows, finished = read_rows(store, runs=runs, suite=suite, split=split)
    costs = cost_table(
        store,
        runs=[source.run for source in table.sources],
        agents=rows.agents(row.agent for row in table.rows),
        suite=suite,
        split=split,
        prices=prices,
    )
    listed = _listed(table, finished)
    replayed = choose(listed, max_episodes)
    shelf = Shelf(store.screenshots, max_picture_bytes, folder=path.parent / pictures if pictures else None)
    replays: dict[str, JsonValue] = {e.id: replay(store.episode(e.id), shelf) for e in replayed}
    data: dict[str, JsonValue] = {
        **_index(listed),
        "replays": replays,
        "pages": shelf.pages,
        "pictures": shelf.pictures,
    }
    script = Markup(_source("report.js"))
    name, level = curve_baseline or ("", None)
    page = TEMPLATES.get_template("report.html.jinja").render(
        title=title,
        table=table,
        bars=success_bars_svg(table, standalone=False),
        costs=costs,
        pareto=pareto_svg(costs, standalone=False),
        curve=learning_curve_svg(curve, baseline=level, baseline_name=name, standalone=False) if curve else None,
        splits={name: failure_split_svg(s, standalone=False) for name, s in (diagnostics or {}).items() if s.steps},
        listed=len(listed),
        replayed=len(replayed),
        pictures_left_out=shelf.left_out,
        pictures_lost=shelf.lost,
        style=style,
        script=script,
        style_hash=style_hash,
        script_hash=_hash(script),
        image_sources="data:" if pictures is None else "data: file: 'self'",
        data=embedded_json(data),
        **searches,
    )
    return _written(path, page)


def _written(path: Path, page: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _searches(store: Store, runs: Sequence[str], max_trees: int, alpha: float, threshold: float) -> dict[str, Any]:
    """What the section on search trees shows."""
    table = search_table(store, runs, alpha=alpha, threshold=threshold)
    told = telling_trees(store, runs, max_trees, alpha=alpha, threshold=threshold)
    drawn = (search_tree_svg(tree, alpha=alpha, threshold=threshold, standalone=False) for _, tree in told)
    return {
        "searches": table if table.rows else None,
        "tree_count": sum(row.trees for row in table.rows),
        "trees": [(run, tree, picture) for (run, tree), picture in zip(told, drawn, strict=True)],
    }


def embedded_json(data: JsonValue) -> Markup:
    """JSON that can stand inside a script element: no text in it can end the element or open a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _listed(table: ResultTable, finished: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
    """The table's episodes, those of one task together, agents in the table's order."""
    place = {row.agent: number for number, row in enumerate(table.rows)}
    episodes = [episode for episode in finished if episode.agent in place]
    return sorted(episodes, key=lambda e: (e.slot[:2], place[e.agent], e.run, e.slot.repeat))


def _index(episodes: Sequence[EpisodeSummary]) -> dict[str, JsonValue]:
    """The list of episodes, its words kept once: each row is indices and numbers."""
    words: dict[str, int] = {}

    def at(word: str) -> int:
        return words.setdefault(word, len(words))

    rows: list[JsonValue] = [
        [
            e.id,
            at(e.run),
            at(e.agent),
            at(e.slot.task),
            e.slot.repeat,
            at(e.split),
            at(str(e.outcome)),
            e.reward,
            e.steps,
        ]
        for e in episodes
    ]
    return {"words": list(words), "episodes": rows}


def _source(name: str) -> str:
    loader = TEMPLATES.loader
    assert loader is not None
    return loader.get_source(TEMPLATES, name)[0]


def page_style() -> tuple[Markup, str]:
    """A page's style with the figures', and its hash for the page's policy."""
    style = Markup(PALETTE + _source("report.css") + STYLE)
    return style, _hash(style)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
