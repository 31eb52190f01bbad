"""MiniWoB++ as a suite of tasks: where its pages are, which instances a split holds, what each asks."""

import asyncio
import fnmatch
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from rapidfuzz import process
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from bestofq.browser.browser import Browser
from bestofq.core.actions import Goto
from bestofq.core.errors import BrowserError, InputError, SetupError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.miniwob.env import HOSTS, MiniWobEnv, read
from bestofq.envs.miniwob.settings import APART, Families, MiniWobSettings
from bestofq.envs.serving import serve_app

SUITE = "miniwob"
STEP_LIMIT = 10  # BrowserGym's and AgentLab's limit for MiniWoB++

SEEDS: Mapping[Split, range] = {"test": range(10_000), "dev": range(10_000, 20_000), "train": range(20_000, 1_000_000)}
"""The seeds of each split, apart. Problems can repeat none the less: click-test has but one, click-tab three. What a
model trained here has never seen are the tasks in `settings.HELD_OUT`."""


class MiniWob:
    """The suite over a site that serves its pages. `open` makes one; `MiniWobEnv(suite.root, browser)` plays it."""

    def __init__(self, html: Path, root: str) -> None:
        self.html = html
        self.root = root  # http://127.0.0.1:port
        self._goals: dict[tuple[str, int], str] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, html: Path | None = None) -> AsyncIterator["MiniWob"]:
        """The pages of `html`, or of the package, served until the context ends.

        Raises SetupError when the package is missing, InputError when `html` holds no MiniWoB++.
        """
        folder = find_html(html)
        async with serve_app(Starlette(routes=[Mount("/", StaticFiles(directory=folder))])) as root:
            yield cls(folder, root)

    def names(self, split: Split = "test", pattern: str = "*", families: Families = "all") -> tuple[str, ...]:
        """The tasks of a split that match a glob. Raises InputError when none does."""
        found = task_names(self.html, pattern)
        kept = tuple(
            name
            for name in found
            if (name not in APART or (split != "train" and families != "seen"))
            and (name in APART or families != "held-out")
        )
        if not kept:
            raise InputError(f"Of {', '.join(found[:3])}{', …' * (len(found) > 3)}, no task is {families} in {split}.")
        return kept

    async def tasks(
        self,
        browser: Browser,
        split: Split,
        pattern: str = "*",
        *,
        per_task: int = 5,
        families: Families = "all",
        at_once: int = 4,
    ) -> list[Task]:
        """`per_task` instances of each task of the split, one of each task before the second of any.

        What an instance asks, its page says: each is opened once, `at_once` at a time (about 100 ms each), and kept.
        Raises InputError when no task matches, BrowserError when a page does not load.
        """
        seeds = SEEDS[split][:per_task]
        wanted = list(product(seeds, self.names(split, pattern, families)))
        unknown = iter([(name, seed) for seed, name in wanted if (name, seed) not in self._goals])
        workers = [asyncio.create_task(self._ask(browser, unknown)) for _ in range(at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        return [
            Task(
                id=f"{name}/{seed}",
                suite=SUITE,
                goal=self._goals[name, seed],
                start_url=f"{page_path(name)}?seed={seed}",
                seed=seed,
                split=split,
            )
            for seed, name in wanted
        ]

    async def _ask(self, browser: Browser, instances: Iterator[tuple[str, int]]) -> None:
        session = browser.page()
        try:
            for name, seed in instances:
                path = page_path(name)
                if not session.start_url:
                    await session.reset(self.root + path, HOSTS)
                elif problem := await session.act(Goto(url=self.root + path)):
                    raise BrowserError(problem)
                self._goals[name, seed] = (await read(session, path, seed)).goal
        finally:
            await session.close()


class MiniWobSuite:
    """`core.protocols.Suite` of the settings' tasks, which are read from their pages."""

    name = SUITE
    step_limit = STEP_LIMIT
    sandboxed = True
    needs_judge = False
    judge = None

    def __init__(self, settings: MiniWobSettings) -> None:
        self._settings = settings
        self._opened: tuple[MiniWob, Browser] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        """SetupError and InputError as `MiniWob.open`."""
        async with Browser.launch(self._settings.browser) as browser, MiniWob.open(self._settings.data) as served:

            async def make_env() -> Env:
                return MiniWobEnv(served.root, browser, screenshots=self._settings.screenshots)

            self._opened = served, browser
            try:
                yield make_env
            finally:
                self._opened = None

    async def tasks(self, split: Split) -> Sequence[Task]:
        """Opened for that where it is not open. InputError where no task matches `only` and `families`, SetupError as
        `open`."""
        if self._opened is None:
            async with self.open():
                return await self.tasks(split)
        (served, browser), chosen = self._opened, self._settings
        return await served.tasks(browser, split, chosen.only, per_task=chosen.per_task, families=chosen.families)


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
    return f"/{name.replace('.', '/')}/wrapper.html" if name.startswith("flight.") else f"/miniwob/{name}.html"
