"""WebVoyager's published files, where their folder is given."""

import json
import os
import shutil
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.core.actions import Goto
from bestofq.core.observation import Split
from bestofq.envs.web import WebEnv
from bestofq.envs.webvoyager.dates import dates, stale
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.source import load_entries
from bestofq.envs.webvoyager.suite import WebVoyager

SIBLING = Path(__file__).parents[3].parent / "shared" / "data" / "webvoyager"
FOLDER = Path(os.environ.get("BESTOFQ_WEBVOYAGER_DATA", SIBLING))
PATCHED, PUBLISHED = FOLDER / "patchedTasks.jsonl", FOLDER / "WebVoyager_data.jsonl"
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
TABLE_5 = {
    "Allrecipes": 40,
    "Amazon": 38,
    "Apple": 34,
    "ArXiv": 42,
    "BBC News": 34,
    "Booking": 40,
    "Cambridge Dictionary": 43,
    "Coursera": 40,
    "ESPN": 41,
    "GitHub": 39,
    "Google Flights": 39,
    "Google Map": 38,
    "Google Search": 40,  # Table 5 has 40 of Bing-Search
    "Huggingface": 36,
    "Wolfram Alpha": 46,
}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"WebVoyager's files are not in {FOLDER}: set BESTOFQ_WEBVOYAGER_DATA to their folder"
)


def test_the_590_have_the_domains_of_table_5() -> None:
    assert Counter(entry.web_name for entry in load_entries(PATCHED)) == TABLE_5
    assert len(WebVoyager(WebVoyagerSettings(data=PATCHED)).list_tasks("train")) == 590
    assert len(load_entries(PUBLISHED)) == 643


def test_every_task_but_a_search_engines_is_held_to_hosts() -> None:
    tasks = WebVoyager(WebVoyagerSettings(data=PUBLISHED)).list_tasks()
    assert {task.id.partition("--")[0] for task in tasks if not task.allowed_hosts} == {"Google Search"}


def test_both_lists_are_split_alike_and_every_domain_has_its_share() -> None:
    def split_of(path: Path) -> dict[str, Split]:
        suite = WebVoyager(WebVoyagerSettings(data=path, holdout=True))
        return {task.id: split for split in SPLITS for task in suite.list_tasks(split)}

    patched, published = split_of(PATCHED), split_of(PUBLISHED)
    assert len(patched) == 590
    assert patched.items() <= published.items()
    assert {(task.rpartition("--")[0], split) for task, split in patched.items()} == {
        (domain, split) for domain in TABLE_5 for split in SPLITS
    }


def test_no_reference_answer_reaches_a_task() -> None:
    domains = json.loads((FOLDER / "reference_answer.json").read_text("utf-8"))
    answers = {f"{name}--{one['id']}": one["ans"] for name, domain in domains.items() for one in domain["answers"]}
    tasks = WebVoyager(WebVoyagerSettings(data=PUBLISHED)).list_tasks()
    assert len(answers.keys() & {task.id for task in tasks}) > 600
    shown = "\n".join(task.model_dump_json() for task in tasks)
    assert not any(answer in shown for answer in answers.values() if len(answer) > 20)


def test_tasks_that_name_a_year_and_those_that_went_stale() -> None:
    tasks = WebVoyager(WebVoyagerSettings(data=PATCHED)).list_tasks()
    assert sum(any(True for _ in dates(task.goal)) for task in tasks) == 86
    early, late = (stale(tasks, day) for day in (date(2026, 1, 15), date(2026, 11, 21)))
    assert (len(early), len(late)) == (29, 86)
    assert {entry.task.id for entry in early} < {entry.task.id for entry in late}


class StandIn(BaseHTTPRequestHandler):
    """Any site: its page is titled with the host and path it was asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<title>{self.headers['Host']}{self.path}</title><p>stand-in".encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of a server that speaks TLS with a certificate of its own."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stand-in")
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=30)
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


async def test_every_domain_is_entered_under_its_own_name_and_left_only_where_allowed(port: int) -> None:
    """The first task of each of the 15 domains, at its real start URL, against a stand-in for the whole web."""
    first = {task.id.rpartition("--")[0]: task for task in WebVoyager(WebVoyagerSettings(data=PATCHED)).list_tasks()}
    assert len(first) == 15
    rules = f"--host-resolver-rules=MAP * 127.0.0.1:{port}, EXCLUDE 127.0.0.1"
    config = BrowserConfig(arguments=(rules, "--ignore-certificate-errors"))
    async with Browser.launch(config) as browser:
        env = WebEnv(browser, screenshots=False)
        for domain, task in first.items():
            seen = await env.reset(task, seed=0)
            assert seen.url == task.start_url
            assert f"https://{seen.title}" == task.start_url
            result = await env.step(Goto(url="https://elsewhere.example/"))
            assert (result.observation.error is None) == (domain == "Google Search")
        await env.close()
