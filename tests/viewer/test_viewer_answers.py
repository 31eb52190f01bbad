"""The viewer's answers: who gets one, what stands in their headers, what wrong addresses are told, and how soon."""

import asyncio
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from forked import Forked
from sqlalchemy import select, update
from starlette.testclient import TestClient
from tiny_shop import LOOPBACK, PROVENANCE, pages_of, play, shop_agent, shop_page, shop_task

from bestofq.cli.view import view
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Episode, Step, Verdict
from bestofq.core.errors import DataError, InputError
from bestofq.store.codec import pack
from bestofq.store.database import connect, sqlite_url
from bestofq.store.records import EpisodeFilter
from bestofq.store.schema import PAGES, STEPS, add_checksum
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer
from bestofq.viewer.app import viewer_app
from bestofq.viewer.server import is_loopback, listen, serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("shop")

    async def fill() -> None:
        with Store.open(where) as store:
            for name in ("kettles--0", "mugs--0"):
                await play(store, shop_agent(), task=shop_task(name))

    asyncio.run(fill())
    return where


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder, read_only=True) as opened:
        yield opened


@pytest.fixture
def browser(store: Store) -> TestClient:
    return TestClient(viewer_app(store, name="tests"), base_url=LOOPBACK)


def picture_of(page: str) -> str:
    found = re.search(r'<image href="(/screenshots/[^"]+)"', page)
    return found.group(1)


def test_every_answer_has_the_policy(store: Store, browser: TestClient) -> None:
    episode = store.catalogue.episodes(EpisodeFilter())[0].id
    page = browser.get(f"/episode/{episode}").text
    style = re.search(r'href="(/assets/[^"]+)"', page)
    for path in ("/", f"/episode/{episode}", picture_of(page), style.group(1), "/nothing", "/run"):
        headers = browser.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert "style=" not in page
    assert not re.search(r"<script(?! src=)", page)


async def test_a_step_says_who_scored_it_where_that_is_recorded(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [played] = await play(store, shop_agent())
    engine = connect(sqlite_url(tmp_path / "store.sqlite"))
    with engine.begin() as connection:
        for number, change in enumerate(({"scorer": None}, {"checkpoint": "value-<1>"})):
            row = connection.execute(select(STEPS).where(STEPS.c.number == number)).one()._asdict()
            row["decision"] = pack(played.steps[number].decision.model_copy(update=change))
            connection.execute(update(STEPS).where(STEPS.c.number == number).values(add_checksum(STEPS, row)))
    engine.dispose()
    with pages_of(tmp_path) as browser:
        first, second = (browser.get(f"/episode/{played.id}?step={step}").text for step in (1, 2))
    assert "Scored by" not in first
    assert "Scored by ScriptedScorer: score, what the candidates are ranked by" in second
    assert "; Q-function <code>value-&lt;1&gt;</code>" in second


def test_a_page_is_sent_again_only_when_it_changed_and_a_screenshot_never(store: Store, browser: TestClient) -> None:
    first = browser.get("/")
    again = browser.get("/", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code, again.text) == (200, 304, "")
    shot = browser.get(picture_of(browser.get(f"/episode/{store.catalogue.episodes(EpisodeFilter())[0].id}").text))
    assert shot.headers["Content-Type"] == "image/png"
    assert "immutable" in shot.headers["Cache-Control"]


WRONG = {  # what is named as wrong, escaped: addresses
    "": f"/nothing /screenshots/..%2Fstore.sqlite /screenshots/{'0' * 64}.png /compare?left=ID&right=OTHER",
    "run": "/run",
    "other": "/run?run=other /episodes?run=other /results?run=other",
    "great": "/episodes?outcome=great",
    "2": "/episodes?page=2",
    "-1": "/episodes?page=-1",
    "²": "/episodes?page=²",
    "0123": "/episode/0123 /compare?left=ID&right=0123",
    "4": "/episode/ID?step=4",
    "&lt;b&gt;": "/episode/ID?step=<b>",
    "x": "/task?suite=shop&task=x /tree?run=eval&suite=shop&task=x",
    "nan": "/tree?run=eval&suite=shop&task=x&alpha=nan",
}


def test_a_wrong_address_gets_one_sentence(store: Store, browser: TestClient) -> None:
    one, other = store.catalogue.episodes(EpisodeFilter())
    for named, paths in WRONG.items():
        for path in paths.split():
            answer = browser.get(path.replace("ID", one.id).replace("OTHER", other.id))
            assert answer.status_code == 404, path
            assert re.search(rf"<h1>[^<]*(\b|&#39;){re.escape(named)}(\b|&#39;)", answer.text), path


async def test_a_damaged_page_is_a_sentence_too(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [played] = await play(store, shop_agent())
    engine = connect(sqlite_url(tmp_path / "store.sqlite"))
    with engine.begin() as connection:
        connection.execute(update(PAGES).values(body=b"?"))
    engine.dispose()
    with Store.open(tmp_path, read_only=True) as store:
        app = viewer_app(store, name="tests")
        answer = TestClient(app, base_url=LOOPBACK, raise_server_exceptions=False).get(f"/episode/{played.id}")
    assert answer.status_code == 500
    assert "bestofq doctor --store" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_what_a_killed_process_left_running_is_said_to_be_so(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [played] = await play(store, shop_agent(), task=shop_task("mugs--0"), run="now")
        left = await store.begin_episode("now", "careful", shop_task(), 0, PROVENANCE)
        await store.append_step(left, played.steps[0])
        paths = ("/", "/run?run=now", "/episodes", "/task?suite=shop&task=kettles--0", f"/episode/{left}")
        with pages_of(tmp_path) as browser:
            for path in paths:
                assert 'class="tag live"' in browser.get(path).text, path
    with pages_of(tmp_path) as browser:
        for path in paths:
            page = browser.get(path).text
            assert "left running" in page, path
            assert 'class="tag live"' not in page, path
        assert "Step 1 of 1" in page
        assert "ended without a page to show" in browser.get(f"/episode/{left}?step=end").text


def test_it_only_shows(browser: TestClient) -> None:
    assert browser.post("/").status_code == 405


def test_a_name_from_elsewhere_is_refused_on_loopback(store: Store, browser: TestClient) -> None:
    for name in ("evil.test:8760", "a{b.evil.test:8760", "", "é", "localhost.evil.test", "127.0.0.1:8:8", "127.0.0.2"):
        answer = browser.get("/", headers=[(b"Host", name.encode())])
        assert answer.status_code == 403, name
        assert "Runs" not in answer.text
    for name in ("localhost:8760", "LocalHost", "[::1]:8760"):
        assert browser.get("/", headers={"Host": name}).status_code == 200, name
    asked = TestClient(viewer_app(store, name="tests", host="127.0.0.2"), base_url="http://127.0.0.2:8760")
    assert asked.get("/").status_code == 200
    assert asked.get("/", headers={"Host": "127.0.0.3"}).status_code == 403


def test_a_token_is_asked_for_and_then_remembered(store: Store) -> None:
    with TestClient(viewer_app(store, name="tests", token="s3cret"), base_url="http://machine.test:8760") as browser:
        for path in ("/", "/?token=wrong", "/?token=é", "/assets/x/viewer.css"):
            answer = browser.get(path)
            assert answer.status_code == 403
            assert "the address that `bestofq view` printed" in answer.text
        away = browser.get("http://machine.test:8760//evil.test?token=s3cret", follow_redirects=False)
        assert away.headers["location"] == "/evil.test"
        welcome = browser.get("/episodes?page=1&token=s3cret", follow_redirects=False)
        assert (welcome.status_code, welcome.headers["Location"]) == (303, "/episodes?page=1")
        assert "HttpOnly" in welcome.headers["Set-Cookie"]
        assert browser.get("/episodes").status_code == 200
        assert welcome.headers["Referrer-Policy"] == "no-referrer"


def test_where_it_listens(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        assert is_loopback(taken)
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} of 127.0.0.1 is not available .*give another by --port"):
            listen("127.0.0.1", port)
    with listen("0.0.0.0", 0) as everywhere:
        assert not is_loopback(everywhere)
    with pytest.raises(DataError, match="holds no bestofq store"):
        view(tmp_path / "nothing")


def say(address: str) -> None:
    sys.stdout.write(f"{address}\n")


def serve_folder(folder: Path, host: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background ignores it
    serve(Store.open(folder, read_only=True), name="tests", host=host, port=0, ready=say)


@pytest.mark.parametrize(("host", "asks"), [("127.0.0.1", False), ("127.0.0.2", False), ("0.0.0.0", True)])
def test_a_served_store_prints_its_address_and_stops(folder: Path, tmp_path: Path, host: str, asks: bool) -> None:
    process = Forked(tmp_path / "log", serve_folder, folder, host)
    while not process.said and process.runs:
        time.sleep(0.02)
    address = process.said.strip()
    assert ("?token=" in address) == asks
    on_loopback = re.sub(r"//[^:/]+", "//127.0.0.1", address) if asks else address
    assert "eval" in httpx.get(on_loopback, follow_redirects=not asks, cookies={}).text or asks
    assert httpx.get(on_loopback.partition("?")[0]).status_code == (403 if asks else 200)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) in (130, -signal.SIGINT)


@pytest.mark.slow
def test_two_thousand_episodes_are_paged_and_soon_there(tmp_path: Path) -> None:
    asyncio.run(write_many(tmp_path, 2000))
    with pages_of(tmp_path) as browser:
        last = browser.get("/episodes?page=40").text
        assert "1,951–2,000 of 2,000 episodes" in last
        assert last.count("<tr>") == 51
        assert "find kettle 99" in browser.get("/run?run=run-4&find=--99").text
        for path in ("/", "/compare", "/run?run=run-1", "/episodes?agent=random&outcome=failure&find=shop3"):
            browser.get(path)
            seconds = [_seconds(browser, path) for _ in range(5)]
            assert statistics.median(seconds) < 0.15, path


def _seconds(browser: TestClient, path: str) -> float:
    began = time.process_time()  # not the wall's: others may be at work on this machine
    assert browser.get(path).status_code == 200
    return time.process_time() - began


async def test_an_episode_without_a_valid_action_shows_the_raw_replies_and_their_cost(tmp_path: Path) -> None:
    agent = replace(shop_agent(), proposer=ScriptedProposer(lambda state, n: ["<fly>", "click [9]"]))
    with Store.open(tmp_path) as store:
        [played] = await play(store, agent)
    with pages_of(tmp_path) as browser:
        page = browser.get(f"/episode/{played.id}?step=end").text
    assert "<pre>&lt;fly&gt;</pre>" in page
    assert "<pre>click [9]</pre>" in page
    assert "<span>1 calls</span>" in page


async def test_an_episode_says_which_hosts_it_asked_for_in_vain(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await store.begin_run("eval", {}, PROVENANCE)
        episode = await store.begin_episode("eval", "prompting", shop_task("kettles--0"), 0, PROVENANCE)
        last = shop_page(0).model_copy(update={"refused": ("ads.test", "cdn.test")})
        await store.finish_episode(episode, Verdict(reward=0.0, outcome="failure"), last)
    with pages_of(tmp_path) as browser:
        page = browser.get(f"/episode/{episode}").text
    assert "Hosts asked for in vain: ads.test, cdn.test" in page


AGENTS = ("best-of-q", "picker", "prompting", "random")


async def write_many(folder: Path, episodes: int) -> None:
    """`episodes` of four agents in five runs, each of four steps on pages without pictures."""
    page = shop_page(0, pictured=False)
    candidates = tuple(Candidate(action=Click(mark=mark), label=f"click link Kettle {mark}") for mark in (1, 2))
    decision = Decision(candidates=candidates, scores=(0.4, 0.6), state_value=0.5, chosen=1)
    steps = tuple(Step(index=index, observation=page, decision=decision) for index in range(4))
    won = Verdict(reward=1.0, outcome="success")
    lost = Verdict(reward=0.0, outcome="failure", reason="ran out of steps")
    began = datetime(2026, 1, 1, tzinfo=UTC)

    def played(number: int) -> Episode:
        name = f"{number // 20}"
        return Episode(
            id=f"{number:016x}",
            run=f"run-{number * 5 // episodes}",
            agent=AGENTS[number % 4],
            task=shop_task(f"shop{number // 20 % 15}--{name}", f"find kettle {name}"),
            steps=steps,
            final=page,
            verdict=lost if number % 3 == 0 else won,
            provenance=PROVENANCE.model_copy(update={"started_at": (began + timedelta(seconds=number)).isoformat()}),
        )

    with Store.open(folder) as store:
        for run in range(5):
            await store.begin_run(f"run-{run}", {}, PROVENANCE)
        await asyncio.gather(*(store.add_episode(played(number), number // 4 % 5) for number in range(episodes)))
