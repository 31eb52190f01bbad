"""A folder that opens from disk, without a server and without a network: `index.html` with every table and figure, the
episodes to step through beside it, and each table as CSV, JSON, LaTeX and Markdown, each figure as SVG.

    index.html          tables, figures, where each row comes from; no script
    episodes.html       `html.write_report`: the headline, and episodes to step through
    tables/, figures/   for papers and other programs
    screenshots/        what episodes.html shows
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from bestofq.core.protocols import Rated
from bestofq.reports import origin
from bestofq.reports.costs import Prices, cost_table
from bestofq.reports.diagnosis import Figure, diagnose
from bestofq.reports.domains import domain_table
from bestofq.reports.figures import CurvePoint, learning_curve_svg, pareto_svg, success_bars_svg
from bestofq.reports.headline import domain_sheet, price_sheet, result_sheet
from bestofq.reports.html import TEMPLATES, page_style, write_report
from bestofq.reports.judged import JudgeError
from bestofq.reports.origin import Origin, origins, search_origin
from bestofq.reports.rows import read_rows
from bestofq.reports.searches import search_table, searches_sheet, telling_trees
from bestofq.reports.sheet import Sheet, write_sheets
from bestofq.reports.table import result_table
from bestofq.reports.trees import search_tree_svg
from bestofq.store.store import Store

ENDINGS = ("csv", "json", "tex", "md")


class Choice(TypedDict):
    """What `write_report` takes to show the same episodes."""

    runs: Sequence[str] | None
    agents: Sequence[str] | None
    suite: str | None
    split: str | None
    baseline: str | None
    curve: Sequence[CurvePoint] | None
    curve_baseline: tuple[str, float] | None
    prices: Prices | None
    max_trees: int
    alpha: float
    threshold: float


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every table and figure of some episodes, the headline first; `choice` says which episodes."""

    sheets: Sequence[Sheet]
    figures: Sequence[Figure]
    made: Mapping[str, Origin]  # by row
    choice: Choice


def gather(
    store: Store,
    *,
    runs: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    suite: str | None = None,
    split: str | None = None,
    baseline: str | None = None,
    curve: Sequence[CurvePoint] | None = None,
    curve_baseline: tuple[str, float] | None = None,
    prices: Prices | None = None,
    discount: float | None = None,
    rated: Mapping[str, Sequence[Rated]] | None = None,
    error: JudgeError | None = None,
    shown: Sequence[str] = (),
    max_trees: int = 6,
    alpha: float = 0.5,
    threshold: float = 0.2,
) -> Report:
    """Every table and figure of `runs` (None: all).

    The choice of episodes and `baseline` are `result_table`'s, which also says when DataError is raised; `curve` is
    Fig. 4's, `curve_baseline` the name and success of the agent it is held against on the same tasks; of search trees
    the most telling `max_trees` are drawn, with Q and pairs at `alpha` and `threshold`; the rest is `diagnose`'s.
    """
    choice: Choice = {
        "runs": runs,
        "agents": agents,
        "suite": suite,
        "split": split,
        "baseline": baseline,
        "curve": curve,
        "curve_baseline": curve_baseline,
        "prices": prices,
        "max_trees": max_trees,
        "alpha": alpha,
        "threshold": threshold,
    }
    of_runs = {run.name: run for run in store.runs() if runs is None or run.name in runs}
    searches = search_table(store, list(of_runs), alpha=alpha, threshold=threshold)
    searched = {row.run: search_origin(of_runs[row.run]) for row in searches.rows}
    search_sheets = [searches_sheet(searches, searched)] if searched else []
    trees = _trees(store, list(searched), max_trees, alpha, threshold)
    by_search = {f"searches of {run}": one for run, one in searched.items()}
    if searched and not any(store.summaries(run=run) for run in of_runs):
        return Report(sheets=search_sheets, figures=trees, made=by_search, choice=choice)
    table = result_table(store, runs=runs, agents=agents, suite=suite, split=split, baseline=baseline)
    read, names = [source.run for source in table.sources], [row.agent for row in table.rows]
    rows, finished = read_rows(store, runs=runs, suite=suite, split=split)
    episodes = [episode for episode in finished if episode.agent in names]
    known = origins(store, episodes)
    made = {name: known[name] for name in names}
    costs = cost_table(store, runs=read, agents=rows.agents(names), suite=suite, split=split, prices=prices)
    domains = domain_table(store, runs=runs, agents=names, suite=suite, split=split, baseline=baseline)
    more = diagnose(
        store,
        episodes,
        made,
        baseline=table.baseline,
        discount=discount,
        prices=prices,
        rated=rated,
        error=error,
        shown=shown,
    )
    sheets = [result_sheet(table, made), *([domain_sheet(domains, made)] if 2 < len(domains.rows) < 200 else [])]
    figures = [
        Figure(name="success", caption="Success of each agent", svg=success_bars_svg(table)),
        Figure(name="pareto", caption="Success against cost (Fig. 2)", svg=pareto_svg(costs)),
    ]
    if curve:
        figures += _curves(curve, curve_baseline)
    prices_of = [price_sheet(prices)] if prices else []
    return Report(
        sheets=[*sheets, *more.sheets, *prices_of, *search_sheets],
        figures=[*figures, *more.figures, *trees],
        made=made | by_search,
        choice=choice,
    )


def _trees(store: Store, runs: Sequence[str], at_most: int, alpha: float, threshold: float) -> list[Figure]:
    told = telling_trees(store, runs, at_most, alpha=alpha, threshold=threshold)
    return [
        Figure(
            name=f"tree-{run}-{tree.task.id}",
            caption=f"Search tree (Agent Q, 5.1): {tree.task.id}, {tree.visits[0]} rollouts, run {run}",
            svg=search_tree_svg(tree, alpha=alpha, threshold=threshold),
            wide=True,
        )
        for run, tree in told
    ]


def _curves(curve: Sequence[CurvePoint], baseline: tuple[str, float] | None) -> list[Figure]:
    name, level = baseline or ("", None)
    drawn = learning_curve_svg(curve, baseline=level, baseline_name=name)
    found = [Figure(name="curve", caption="Success by episodes learned from (Fig. 4)", svg=drawn)]
    if all(point.successes is not None for point in curve):
        drawn = learning_curve_svg(curve, baseline=level, baseline_name=name, by="successes")
        found.append(Figure(name="curve-successes", caption="Success by successful episodes (Fig. 8)", svg=drawn))
    return found


def write_folder(store: Store, found: Report, folder: Path, *, title: str, max_episodes: int = 40) -> Path:
    """Write the folder of what was gathered from the store, made where it is not there; return its `index.html`."""
    episodes = folder / "episodes.html"
    write_report(store, episodes, title=title, max_episodes=max_episodes, pictures="screenshots", **found.choice)
    write_sheets(found.sheets, folder / "tables", ENDINGS)
    write_figures(found.figures, folder / "figures")
    return write_index(found.sheets, found.figures, found.made, folder / "index.html", title=title)


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Each as an SVG file that stands alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        (folder / file_name(figure)).write_text(figure.svg, encoding="utf-8")


def file_name(figure: Figure) -> str:
    """The figure's file; an agent's name in it may hold anything."""
    return re.sub(r"[^\w.@-]+", "-", figure.name) + ".svg"


def write_index(
    sheets: Sequence[Sheet], figures: Sequence[Figure], made: Mapping[str, Origin], path: Path, *, title: str
) -> Path:
    """The page of all tables and figures."""
    style, style_hash = page_style()
    page = TEMPLATES.get_template("folder.html.jinja").render(
        title=title,
        sheets=sheets,
        figures=[(figure, file_name(figure)) for figure in figures],
        made=made,
        origin_columns=origin.COLUMNS,
        endings=ENDINGS,
        style=style,
        style_hash=style_hash,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path
