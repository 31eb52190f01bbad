"""What all tests share: one thread a worker for tiny models, no search for garbage among imports, a real Chromium."""

import gc
import json
import logging
import os
import ssl
import sys
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from _pytest.pathlib import import_path
from execnet import gateway_io
from forked import ForkedWorker, forking
from one_room import launching
from playwright import async_api
from postgres import postgresql, programs
from sqlalchemy import create_engine, text

from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.core import secrets
from bestofq.models import chat
from bestofq.rollouts.console import console

chat.BACKOFF_SECONDS, chat.MAX_BACKOFF_SECONDS, chat.COOLDOWN_SECONDS = 0.001, 0.05, 0.05  # for servers that fail
DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of each file of tests, as `make test ARGS=--write-durations` measured them."""
SLOW_SECONDS = 4.0  # of a file, from which it is left out of the quick part

PRELOADED = ("openai", "datasets", "peft", "transformers.models.llama.modeling_llama", "bestofq_sites.demo")
"""What takes long to import, and most workers need."""

_SCHEMAS = count()

ssl.create_default_context = cache(ssl.create_default_context)  # each HTTP client reads all certificates anew: 50 ms
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # each run, and each process of one, would compile all anew
os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a worker a core and more: their threads would wait in turn


def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two cores: tests of processes and pages wait a third of their time."""
    return max(1, 3 * (os.cpu_count() or 1) // 2)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what was printed on the console since the last call, in unbroken lines."""
    monkeypatch.setattr(console, "_width", 500)
    return lambda: capsys.readouterr().out


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before pytest-xdist begins its workers: they take ten seconds each to import PyTorch and Transformers."""
    if session.config.getoption("numprocesses"):
        forks = ExitStack()
        forks.enter_context(forking(partial(import_all, session.config)))
        session.config.add_cleanup(forks.close)
        gateway_io.Popen2IOMaster = ForkedWorker


def import_all(config: pytest.Config) -> None:
    """What the workers need, and the tests themselves: each worker would take seconds to rewrite and compile them."""
    for name in PRELOADED:
        import_module(name)
    logging.disable()
    given = (Path(name.partition("::")[0]).absolute() for name in config.args)
    with warnings.catch_warnings(action="error"):
        for path in (path for one in given for path in [*one.rglob("test_*.py")] or [one]):
            with suppress(Exception, pytest.skip.Exception):  # each worker finds it anew, and says it
                import_path(path, root=config.rootpath, consider_namespace_packages=False)
    logging.disable(logging.NOTSET)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports leave no garbage, and tests little: to look for it takes a quarter of their time."""
    gc.disable()
    try:
        import_module("hypothesis")  # looks for garbage among all that was imported before it
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write the seconds of each file to {DURATIONS}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, and run the longest files first (`--no-loadscope-reorder` keeps that order), then
    files with some slow tests: no worker is left alone with one. Files that measure seconds follow the long ones."""
    seconds = json.loads(DURATIONS.read_text())
    for item in items:
        if seconds.get(item.path.name, 0.0) >= SLOW_SECONDS:
            item.add_marker(pytest.mark.slow)
    some = {item.path for item in items if item.get_closest_marker("slow")}
    timed = {item.path for item in items if item.get_closest_marker("timed")}
    seconds |= {path.name: min(seconds.get(path.name, 0.0), 10.0) for path in timed}
    items.sort(key=lambda item: (-seconds.get(item.path.name, 0.0), item.path not in some))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--write-durations"):
        seconds: dict[str, float] = defaultdict(float)
        for report in (report for reports in terminalreporter.stats.values() for report in reports):
            if isinstance(report, pytest.TestReport):
                seconds[Path(report.fspath).name] += report.duration
        longest = sorted(((round(spent, 1), name) for name, spent in seconds.items() if spent >= 1), reverse=True)
        DURATIONS.write_text(json.dumps({name: spent for spent, name in longest}, indent=0) + "\n")


def pytest_runtest_setup() -> None:
    """Random weights are the same whichever tests ran before."""
    if torch := sys.modules.get("torch"):
        (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(0)  # a stack is slow
    if (local := sys.modules.get("bestofq.models.local")) and local.load_checkpoint.__module__ != __name__:
        local.load_checkpoint = read_once(local.load_checkpoint)


def read_once(load: Callable[..., Any]) -> Callable[..., Any]:
    """`load_checkpoint` for the files of a folder as they are now. Reading weights anew takes a fifth of a second."""
    read = lru_cache(maxsize=4)(lambda auto, path, device, precision, files: load(auto, path, device, precision))

    def copy(auto: object, path: str | Path, *how: object) -> tuple[object, ...]:
        files = [file.stat() for file in sorted(Path(path).glob("*"))]
        model, *rest = read(auto, path, *how, tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in files))
        return deepcopy(model.requires_grad_(False)), *rest  # as a local model is

    return copy


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret of the tests before: each text would be searched for all of them."""
    monkeypatch.setattr(secrets, "_known", {})


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    with forking():
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    rules = "MAP allowed.test 127.0.0.1, MAP other.test 127.0.0.1"
    async with Browser.launch(BrowserConfig(arguments=(f"--host-resolver-rules={rules}",))) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(browser: Browser) -> async_api.Browser:
    return await browser._ensure_chromium()


@pytest.fixture
def shared_browser(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever launches a browser gets the Chromium of all tests."""
    monkeypatch.setattr(Browser, "launch", launching(browser))


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of no use that is trained in no time, with the pocket model's tokenizer."""
    from tiny_llama import save_llama  # transformers takes seconds to import: not for tests that need no model
    from transformers import PreTrainedTokenizerFast

    from bestofq_sites.shipped import POCKET

    folder = tmp_path_factory.mktemp("weights")
    save_llama(folder, PreTrainedTokenizerFast.from_pretrained(POCKET), max_position_embeddings=2048)
    return str(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    if programs() is None:
        if os.environ.get("CI"):
            pytest.fail("CI lacks PostgreSQL: apt-get install postgresql")
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    with postgresql("fsync=off", "full_page_writes=off", "deadlock_timeout=100ms") as address:
        yield address


@pytest.fixture
def database(server: str) -> str:
    """The address of a new store: a schema of its own."""
    name = f"store{next(_SCHEMAS)}"
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{server}?options=-csearch_path%3D{name}"
