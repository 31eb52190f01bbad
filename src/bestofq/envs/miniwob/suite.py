"""MiniWoB++ as a suite of tasks: its pages, the instances of each split, and their goals."""

import fnmatch
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from rapidfuzz import process
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Goto
from bestofq.core.concurrency import run_all
from bestofq.core.errors import BrowserError, InputError, SetupError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.miniwob.env import HOSTS, MiniWobEnv, read
from bestofq.envs.miniwob.settings import APART, MiniWobSettings
from bestofq.envs.serving import serve_app

AT_ONCE = 4  # pages whose goals are read together

SEEDS: Mapping[Split, range] = {"test": range(10_000), "dev": range(10_000, 20_000), "train": range(20_000, 1_000_000)}
"""The seeds of each split. Problems can repeat across splits: click-test has one, click-tab three. A model trained here
has never seen the tasks in `settings.HELD_OUT`."""


@dataclass(eq=False)
class MiniWob:
    """`core.protocols.Suite` of the settings' tasks, whose goals are read from their pages."""

    settings: MiniWobSettings
    root: str = ""  # http://127.0.0.1:port, while it is open
    browser: Browser | None = None  # while it is open
    known: dict[tuple[str, int], Task] = field(default_factory=dict)  # whose pages were read, by name and seed

    name = "miniwob"
    step_limit = 10  # BrowserGym's and AgentLab's
    sandboxed = True
    needs_judge = False
    judge = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        """SetupError if the package is missing, InputError if the folder of the settings holds no MiniWoB++."""
        pages = Starlette(routes=[Mount("/", StaticFiles(directory=find_html(self.settings.data)))])
        async with Browser.launch(self.settings.browser) as self.browser, serve_app(pages) as self.root:
            browser, root = self.browser, self.root

            async def make_env() -> Env:
                return MiniWobEnv(root, browser, screenshots=self.settings.screenshots)

            try:
                yield make_env
            finally:
                self.browser = None

    def names(self, split: Split) -> tuple[str, ...]:
        """The tasks of a split that match `only` and `families`. Raises InputError when none does."""
        families = self.settings.families
        names = task_names(find_html(self.settings.data), self.settings.only)
        seen, apart = families != "held-out", families != "seen" and split != "train"
        chosen = tuple(name for name in names if (apart if name in APART else seen))
        if not chosen:
            raise InputError(f"Of {', '.join(names[:3])}{', …' * (len(names) > 3)}, no task is {families} in {split}.")
        return chosen

    async def tasks(self, split: Split) -> list[Task]:
        """`per_task` instances of each task, one of each before the second of any. Their pages are opened once to read
        their goals (100 ms), `AT_ONCE` at a time. InputError as `names`, BrowserError."""
        if self.browser is None:
            async with self.open():
                return await self.tasks(split)
        wanted = list(product(SEEDS[split][: self.settings.per_task], self.names(split)))
        unknown = iter([(name, seed) for seed, name in wanted if (name, seed) not in self.known])
        await run_all(self._ask(BrowserSession(self.browser), unknown, split) for _ in range(AT_ONCE))
        return [self.known[name, seed] for seed, name in wanted]

    async def _ask(self, session: BrowserSession, instances: Iterator[tuple[str, int]], split: Split) -> None:
        try:
            for name, seed in instances:
                self.known[name, seed] = await self.task(session, name, seed, split)
        finally:
            await session.close()

    async def task(self, session: BrowserSession, name: str, seed: int, split: Split) -> Task:
        """One instance, which the session opens. BrowserError if its page does not load."""
        flight = name.startswith("flight.")
        path = f"/{name.replace('.', '/')}/wrapper.html" if flight else f"/miniwob/{name}.html"
        if not session.start_url:
            await session.reset(self.root + path, HOSTS)
        elif problem := await session.act(Goto(url=self.root + path)):
            raise BrowserError(problem)
        goal, start = (await read(session, path, seed)).goal, f"{path}?seed={seed}"
        names = {"id": f"{name}/{seed}", "suite": self.name, "group": name}
        return Task(**names, goal=goal, start_url=start, seed=seed, split=split)


def find_html(folder: Path | None = None) -> Path:
    """The folder of pages. None: that of the package `miniwob`, which is read and not imported. InputError if the
    folder holds no MiniWoB++, SetupError if the package is missing."""
    if folder is not None:
        if not (folder / "core" / "core.js").is_file():
            raise InputError(f"{folder} holds no MiniWoB++ (no core/core.js); name the `html` folder of the package.")
        return folder
    package = find_spec("miniwob")
    for place in (package and package.submodule_search_locations) or ():
        if Path(place, "html", "core", "core.js").is_file():
            return Path(place, "html")
    raise SetupError("MiniWoB++'s pages are not installed; install them with `pip install 'bestofq[miniwob]'`.")


def task_names(html: Path, pattern: str = "*") -> tuple[str, ...]:
    """The tasks that match one of the globs, sorted: each page of `miniwob/`, and each wrapped site of `flight/` as
    `flight.AA`. InputError for a glob without a match."""
    names = [page.stem for page in (html / "miniwob").glob("*.html")]
    names += [f"flight.{page.parent.name}" for page in (html / "flight").glob("*/wrapper.html")]
    chosen: set[str] = set()
    for glob in map(str.strip, pattern.split(",")):
        if not (matching := fnmatch.filter(names, glob)):
            near = [name for name, _, _ in process.extract(glob, sorted(names), limit=3, score_cutoff=60)]
            hint = f"near it: {', '.join(near)}" if near else f"there are {len(names)}, such as click-button or click-*"
            raise InputError(f"No MiniWoB++ task is called {glob!r}; {hint}.")
        chosen.update(matching)
    return tuple(sorted(chosen))
