"""Where MiniWoB++'s pages are, and which tasks they hold."""

import fnmatch
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rapidfuzz import process

from bestofq.core.errors import InputError, SetupError


def find_html(given: Path | None = None) -> Path:
    """The folder of pages: the one given, else the `miniwob` package's own (never imported, only its files are read).

    Raises InputError when the folder given holds no MiniWoB++, SetupError when the package is missing.
    """
    if given is not None:
        if not (given / "core" / "core.js").is_file():
            raise InputError(f"{given} holds no MiniWoB++ (no core/core.js); name the `html` folder of the package.")
        return given
    spec = find_spec("miniwob")
    folders = [] if spec is None else [Path(place) / "html" for place in spec.submodule_search_locations or ()]
    for folder in folders:
        if (folder / "core" / "core.js").is_file():
            return folder
    raise SetupError("MiniWoB++'s pages are not installed; install them with `pip install 'bestofq[miniwob]'`.")


def task_names(html: Path, pattern: str = "*") -> tuple[str, ...]:
    """The tasks that match a glob, sorted: each page of `miniwob/`, each wrapped site of `flight/` as `flight.AA`.

    `pattern` holds globs with commas between them. Some tasks the package does not register with Gymnasium (it ships
    their pages none the less). Raises InputError for a glob that none matches.
    """
    names = [page.stem for page in (html / "miniwob").glob("*.html")]
    names += [f"flight.{page.parent.name}" for page in (html / "flight").glob("*/wrapper.html")]
    found: set[str] = set()
    for glob in pattern.split(","):
        alike = fnmatch.filter(names, glob.strip())
        if not alike:
            raise InputError(f"No MiniWoB++ task is called {glob.strip()!r}{_near(glob.strip(), names)}.")
        found.update(alike)
    return tuple(sorted(found))


def _near(pattern: str, names: Sequence[str]) -> str:
    near = [name for name, _, _ in process.extract(pattern, sorted(names), limit=3, score_cutoff=60)]
    return f"; near it: {', '.join(near)}" if near else f"; there are {len(names)}, such as click-button or click-*"


def page_path(name: str) -> str:
    """The path of a task's page behind the site's root."""
    return f"/{name.replace('.', '/')}/wrapper.html" if name.startswith("flight.") else f"/miniwob/{name}.html"
