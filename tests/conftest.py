"""What all tests share: one thread a worker for tiny models, no search for garbage among imports, a real Chromium."""

import gc
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from importlib import import_module
from itertools import count

import pytest
import pytest_asyncio
from forked import forking
from playwright import async_api
from postgres import postgresql, programs
from sqlalchemy import create_engine, text

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium, switches
from bestofq.browser.config import BrowserConfig
from bestofq.core import secrets
from bestofq.models import chat
from bestofq.rollouts.console import console

chat.BACKOFF_SECONDS, chat.MAX_BACKOFF_SECONDS, chat.COOLDOWN_SECONDS = 0.001, 0.05, 0.05  # for servers that fail
SLOW = (  # the files that take four seconds and more on a busy machine, the longest first
    "test_cluster.py",
    "test_settling.py",
    "test_tune_launched.py",
    "test_miniwob.py",
    "test_env.py",
    "test_ablation.py",
    "test_endpoint.py",
    "test_best_of_q.py",
    "test_webvoyager_paper.py",
    "test_plugins.py",
    "test_demo.py",
    "test_wrong_invocations.py",
    "test_booking_oracle.py",
    "test_demo_agent_q.py",
    "test_stopped.py",
    "test_checkpoint.py",
    "test_viewer_pages.py",
    "test_report_command.py",
    "test_real_data.py",
    "test_best_of_q_comparison.py",
    "test_chat.py",
    "test_pocket_endpoint.py",
    "test_q_training.py",
    "test_miniwob_demonstrations.py",
    "test_train_command.py",
    "test_recycling.py",
    "test_agent_q.py",
    "test_lost_server.py",
    "test_running.py",
    "test_try_settings.py",
    "test_damage.py",
    "test_export.py",
    "test_clicking.py",
    "test_suite.py",
    "test_catalogue.py",
    "test_search_command.py",
    "test_pocket.py",
    "test_hostile_pages.py",
    "test_learners.py",
    "test_miniwob_oracle.py",
    "test_agent_q_comparison.py",
    "test_induction.py",
    "test_waiting_threads.py",
    "test_composite_demonstrations.py",
    "test_viewer_answers.py",
    "test_tabular.py",
    "test_kill.py",
    "test_chat_proposer.py",
    "test_dev_ranking.py",
    "test_instructed.py",
    "test_served_policy.py",
    "test_upstream.py",
    "test_iql.py",
    "test_rft.py",
    "test_viewer_looks.py",
    "test_browser_settings.py",
    "test_preferences.py",
    "test_webvoyager_real.py",
    "test_opening.py",
    "test_episodes.py",
    "test_judge_booking.py",
    "test_serve_command.py",
    "test_same_as_chromium.py",
    "test_ranking.py",
    "test_deploy.py",
    "test_tuning_memory.py",
    "test_exported.py",
    "test_estimate_command.py",
    "test_webvoyager_sites.py",
    "test_own_suite.py",
    "test_ranker.py",
    "test_fuzz.py",
    "test_embedder_benchmark.py",
    "test_contract.py",
    "test_collect_killed.py",
    "test_judge_command.py",
    "test_search_on_open_sites.py",
    "test_site_tools.py",
    "test_faults.py",
    "test_embedder_contract.py",
    "test_inputs.py",
    "test_shared_store.py",
    "test_distributed.py",
    "test_imported_teach.py",
    "test_checkpoint_after_a_cut.py",
)

_SCHEMAS = count()

ssl.create_default_context = cache(ssl.create_default_context)  # each HTTP client reads all certificates anew: 50 ms
os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a worker a core and more: their threads would wait in turn


def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two cores: tests of processes and pages wait a third of their time."""
    return max(1, 3 * (os.cpu_count() or 1) // 2)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what was printed on the console since the last call, in unbroken lines."""
    monkeypatch.setattr(console, "_width", 500)
    return lambda: capsys.readouterr().out


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of slow files are marked so, and come first, the longest before all (`--no-loadscope-reorder` keeps
    that order), then files with some slow tests: no worker is left alone with one."""
    for item in items:
        if item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
    some = {item.path for item in items if item.get_closest_marker("slow")}
    at = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: at.get(item.path.name, len(SLOW) + (item.path not in some)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Random weights are the same whichever tests ran before."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret of the tests before: each text would be searched for all of them."""
    monkeypatch.setattr(secrets, "_known", {})
    monkeypatch.setattr(secrets, "_patterns", {False: None, True: None})


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    with forking():
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[async_api.Browser]:
    async with async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=switches(BrowserConfig()))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The same, as environments use it."""
    async with Browser.launch() as made:
        yield made


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of no use that is trained in no time, with the pocket model's tokenizer."""
    from tiny_llama import save_llama  # transformers takes seconds to import: not for tests that need no model
    from transformers import PreTrainedTokenizerFast

    from bestofq_sites.shipped import POCKET

    folder = tmp_path_factory.mktemp("weights")
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    save_llama(folder, PreTrainedTokenizerFast.from_pretrained(POCKET), max_position_embeddings=2048, **shape)
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
