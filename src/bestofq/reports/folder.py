"""A folder that opens from disk, without a server and without a network: `index.html` with every table and figure, the
episodes to step through beside it, and each table as CSV, JSON, LaTeX and Markdown, each figure as SVG.

    index.html          tables, figures, where each row comes from; no script
    episodes.html       `html.write_report`: the headline, and episodes to step through
    tables/, figures/   for papers and other programs
    screenshots/        what episodes.html shows
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bestofq.reports import origin
from bestofq.reports.diagnosis import Figure
from bestofq.reports.html import TEMPLATES, page_style, write_report
from bestofq.reports.origin import Origin
from bestofq.reports.report import Report
from bestofq.reports.table import Table, write_tables
from bestofq.store.store import Store

ENDINGS = ("csv", "json", "tex", "md")


def write_folder(store: Store, found: Report, folder: Path, *, title: str, max_episodes: int = 40) -> Path:
    """Write the folder of what was gathered from the store, made where it is not there; return its `index.html`."""
    episodes = folder / "episodes.html"
    write_report(
        store,
        episodes,
        found.selection,
        found.options,
        title=title,
        max_episodes=max_episodes,
        pictures="screenshots",
    )
    write_tables(found.tables, folder / "tables", ENDINGS)
    write_figures(found.figures, folder / "figures")
    return write_index(found.tables, found.figures, found.made, folder / "index.html", title=title)


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Each as an SVG file that stands alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        (folder / file_name(figure)).write_text(figure.svg, encoding="utf-8")


def file_name(figure: Figure) -> str:
    """The figure's file; an agent's name in it may hold anything."""
    return re.sub(r"[^\w.@-]+", "-", figure.name) + ".svg"


def write_index(
    tables: Sequence[Table], figures: Sequence[Figure], made: Mapping[str, Origin], path: Path, *, title: str
) -> Path:
    """The page of all tables and figures."""
    style, style_hash = page_style()
    page = TEMPLATES.get_template("folder.html.jinja").render(
        title=title,
        tables=tables,
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
