"""One self-contained HTML file: headline table, figures, and episodes to step through. It asks nothing of a network.

Everything that comes from a page, a model or a task is text: Jinja escapes it, the data block is JSON without `<`, `>`
and `&`, the script sets it by `textContent`, and the page's policy allows only its own script, known by its hash.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.diagnosis import DEFAULTS, Options
from bestofq.reports.figures import learning_curve_svg, pareto_svg, success_bars_svg
from bestofq.reports.replay import Shelf, choose, replay
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.success import Results, agent_results, success_table
from bestofq.reports.svg import PALETTE, STYLE
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
    selection: Selection = EVERYTHING,
    options: Options = DEFAULTS,
    *,
    title: str,
    max_episodes: int = 40,
    max_picture_bytes: int = 12_000_000,
    pictures: str | None = None,
) -> Path:
    """Write the report of the selection to `path`, made with its folder, and return it. DataError as `agent_results`.

    At most `max_episodes` episodes can be replayed, with at most `max_picture_bytes` of pictures; the others are
    listed, and the file says so. With `pictures`, the name of a folder beside the file, all pictures are put there.
    """
    style, style_hash = page_style()
    named = [run.name for run in store.runs() if selection.runs is None or run.name in selection.runs]
    searches = _searches(store, named, options)
    if searches["searches"] and not any(store.summaries(run=run) for run in named):
        bare = TEMPLATES.get_template("searches.html.jinja")
        return _written(path, bare.render(title=title, style=style, style_hash=style_hash, **searches))
    table = agent_results(store, selection)
    rows, finished = read_rows(store, selection)
    read = [source.run for source in table.sources]
    agents = rows.agents(row.agent for row in table.rows)
    costs = agent_costs(store, replace(selection, runs=read, agents=agents), prices=options.prices)
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
    name, level = options.curve_baseline or ("", None)
    page = TEMPLATES.get_template("report.html.jinja").render(
        title=title,
        table=table,
        results=success_table(table),
        bars=success_bars_svg(table, standalone=False),
        costs=cost_table(costs),
        pareto=pareto_svg(costs, standalone=False),
        curve=learning_curve_svg(options.curve, baseline=level, baseline_name=name, standalone=False)
        if options.curve
        else None,
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


def _searches(store: Store, runs: Sequence[str], options: Options) -> dict[str, Any]:
    """What the section on search trees shows."""
    alpha, threshold, max_trees = options.alpha, options.threshold, options.max_trees
    found = search_rows(store, runs, alpha=alpha, threshold=threshold)
    told = telling_trees(store, runs, max_trees, alpha=alpha, threshold=threshold)
    drawn = (search_tree_svg(tree, alpha=alpha, threshold=threshold, standalone=False) for _, tree in told)
    return {
        "searches": search_table(found) if found else None,
        "tree_count": sum(row.trees for row in found),
        "trees": [(run, tree, picture) for (run, tree), picture in zip(told, drawn, strict=True)],
    }


def embedded_json(data: JsonValue) -> Markup:
    """JSON that can stand inside a script element: no text in it can end the element or open a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _listed(table: Results, finished: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
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
