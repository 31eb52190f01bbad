"""Which episode a request without a name belongs to: agents at once, ids that repeat, clients that try again."""

import asyncio
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from bestofq.core.actions import Write
from bestofq.store import database
from tests.serve.agents import TOOLS, ProxyClient, Upstream, browser_use, called, click, episodes, judging, serving

STEPS = 50


async def test_four_agents_at_once_without_any_id_of_their_own(tmp_path: Path) -> None:
    """Two share a goal, and the upstream gives every call of every agent the same id."""

    async def reply(body: object) -> dict[str, Any]:
        await asyncio.sleep(len(json.dumps(body)) % 7 / 1000)
        return called("call_0")

    async def play(client: ProxyClient, name: str, goal: str) -> None:
        talk: list[Any] = [{"role": "user", "content": goal}]
        for step in range(STEPS):
            message = await client.ask_message({"model": "m", "messages": talk, "tools": TOOLS})
            [call] = message["tool_calls"]
            talk += [message, {"role": "tool", "tool_call_id": call["id"], "content": f"{name} saw {step}"}]

    agents = {"one": "buy shoes", "two": "buy shoes", "three": "buy hats", "four": "buy coats"}
    async with serving(Upstream(lambda body, count: reply(body)), tmp_path) as client:
        await asyncio.gather(*(play(client, name, goal) for name, goal in agents.items()))
    right = 0
    for episode in episodes(tmp_path):
        seen = Counter(step.observation.text.split()[0] for step in episode.steps[1:])
        right += 1 + max(seen.values(), default=0)
    assert len(episodes(tmp_path)) == len(agents)
    assert right >= 0.99 * STEPS * len(agents)


async def test_an_id_that_no_other_session_has_is_left_as_it_is(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: called("call_0"))
    async with serving(upstream, tmp_path) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "shoes"}], "tools": TOOLS}
        ids = [(await client.ask_message(body))["tool_calls"][0]["id"] for _ in "ab"]
    assert ids[0] == "call_0" != ids[1]


async def test_who_gives_up_and_asks_again_gets_what_comes_first(tmp_path: Path) -> None:
    """The upstream never answers the first request; the second it answers at once."""

    async def reply(count: int) -> str:
        await asyncio.sleep(30 if count == 1 else 0)
        return click(count)

    asks, again = browser_use("shoes", 1), {"x-stainless-retry-count": "1"}
    upstream = Upstream(lambda body, count: reply(count))
    async with serving(upstream, tmp_path) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.ask(asks, timeout=0.3)
        assert [await client.ask_click(asks, headers=again) for _ in "ab"] == [2, 2]
    assert len(upstream.asked) == 2
    [episode] = episodes(tmp_path)
    assert len(episode.steps) == 1


async def test_two_agents_at_once_that_got_the_same_words_keep_their_episodes_apart(tmp_path: Path) -> None:
    """Nothing but the words of the last reply tells their sessions, and both are asked at the same time."""
    both = asyncio.Barrier(2)

    async def reply() -> str:
        await both.wait()
        return click(1, "on the way")

    async def play(client: ProxyClient) -> None:
        for step in range(1, 5):
            await client.ask(browser_use("shoes", step, "on the way" if step > 1 else ""))

    async with serving(Upstream(lambda body, count: reply()), tmp_path) as client:
        await asyncio.gather(play(client), play(client))
    assert [len(one.steps) for one in episodes(tmp_path)] == [4, 4]


async def test_who_asks_again_stays_in_its_episode_though_another_waits_for_nothing(tmp_path: Path) -> None:
    """Two sessions got the same words; the first reply of the second step never comes."""

    async def reply(count: int) -> str:
        await asyncio.sleep(30 if count == 3 else 0)
        return click(count, "on the way")

    async with serving(Upstream(lambda body, count: reply(count)), tmp_path) as client:
        second = browser_use("shoes", 2, "on the way")
        for _ in "ab":
            await client.ask(browser_use("shoes", 1))
        with pytest.raises(httpx.ReadTimeout):
            await client.ask(second, timeout=0.3)
        await client.ask(second, headers={"x-stainless-retry-count": "1"})
    steps = [len(one.steps) for one in sorted(episodes(tmp_path), key=lambda one: one.provenance.started_at)]
    assert steps == [2, 1]


@pytest.mark.parametrize(
    ("name", "goals", "judged"),
    [
        ("A", ("buy shoes", "buy shoes"), ["A"]),
        ("C", ("buy shoes", "buy hats"), []),  # not open
        (None, ("buy shoes", "buy shoes"), []),
        (None, ("buy shoes", "buy"), ["A"]),
        (None, ("buy", "buy hats"), ["A"]),
    ],
)
async def test_a_judge_speaks_of_the_session_that_is_named_else_of_the_only_one_with_its_goal(
    tmp_path: Path, name: str | None, goals: tuple[str, str], judged: list[str]
) -> None:
    def reply(body: object, count: int) -> str:
        return json.dumps({"verdict": True}) if body == judging("buy shoes") else click(1)

    async with serving(Upstream(reply), tmp_path) as client:
        for session, goal in zip("AB", goals, strict=True):
            await client.ask(browser_use(goal, 1), session)
        headers = {"x-session-id": name} if name else {}
        await client.ask(judging("buy shoes"), headers=headers)
        said = [await client.end(session, {"success": False}) for session in "AB"]
    assert [session for session, one in zip("AB", said, strict=True) if one.status_code == 404] == judged


async def test_an_outcome_during_a_step_costs_the_agent_nothing_and_the_step_is_not_recorded(tmp_path: Path) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def reply(count: int) -> dict[str, Any]:
        if count == 2:
            asked.set()
            await ended.wait()
        return called(f"call_{count}")

    async with serving(Upstream(lambda body, count: reply(count)), tmp_path) as client:

        async def step(number: int, session: str = "x", before: str = "call_0") -> Any:
            page = {"role": "tool", "tool_call_id": before, "content": f"page {number}"}
            talk = [{"role": "user", "content": "shoes"}, called(before), page]
            return await client.ask_message({"model": "m", "messages": talk, "tools": TOOLS}, session)

        await step(1)
        late = asyncio.ensure_future(step(2))
        await asked.wait()
        await client.end("x", {"success": True})
        ended.set()
        assert (await late)["tool_calls"][0]["id"] == "call_2"
        await step(3, session="", before="call_2")  # of the session that has ended: another episode
    found = sorted((one.verdict.outcome, len(one.steps)) for one in episodes(tmp_path))
    assert found == [("success", 1), ("unjudged", 1)]


async def test_a_step_that_cannot_be_stored_costs_neither_its_reply_nor_the_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process writes for longer than is waited for. The agent has no name: its steps are counted."""
    monkeypatch.setattr(database, "_BUSY_MS", 50)
    upstream = Upstream(lambda body, count: click(count, f"memory {count}"))
    async with serving(upstream, tmp_path) as client:
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        for step in range(1, 5):
            if step == 2:
                other.execute("BEGIN IMMEDIATE")
            said = await client.ask_message(browser_use("shoes", step, f"memory {step - 1}"))
            assert said["content"] == click(step, f"memory {step}")
            other.rollback()
        other.close()
    [episode] = episodes(tmp_path)
    assert [one.decision.candidate.note for one in episode.steps] == ["memory 1", "memory 3", "memory 4"]
    [said] = [one.message for one in caplog.records if one.name == "bestofq.serve.sessions"]
    assert "is not recorded: the store cannot be written (database is locked)" in said


async def test_an_outcome_that_cannot_be_stored_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_MS", 50)
    upstream = Upstream(lambda body, count: click(count))
    async with serving(upstream, tmp_path) as client:
        await client.ask(browser_use("shoes", 1), "x")
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        locked = await client.end("x", {"success": True})
        other.rollback()
        other.close()
        again = await client.end("x", {"success": True})
    assert (locked.status_code, again.status_code) == (503, 200)
    assert "database is locked" in locked.json()["error"]["message"]
    assert [one.verdict.outcome for one in episodes(tmp_path)] == ["success"]


async def test_half_an_emoji_is_replaced(tmp_path: Path) -> None:
    """In the goal, in a page and in a reply; whole ones stay."""
    half = "\ud83d"
    reply = called("c", json.dumps({"mark": 1, "text": f"kettle{half}"}), "write") | {"content": half}
    tools = [{"type": "function", "function": {"name": "write"}}]
    talk: list[Any] = [{"role": "user", "content": f"buy 🫖{half}"}]
    async with serving(Upstream(lambda body, count: reply), tmp_path) as client:
        for page in ("one", f"two{half}"):
            body = json.dumps({"model": "m", "messages": talk, "tools": tools})
            got = await client.post("/sessions/x/v1/chat/completions", content=body)
            assert got.json()["choices"][0]["message"] == reply
            talk += [reply, {"role": "tool", "tool_call_id": "c", "content": page}]
        last = json.dumps({"model": "m", "messages": talk, "tools": tools})
        await client.post("/sessions/x/v1/chat/completions", content=last)
    [episode] = episodes(tmp_path)
    assert (episode.task.goal, episode.steps[2].observation.text) == ("buy 🫖\ufffd", "two\ufffd")
    assert episode.steps[0].decision.candidate.action == Write(mark=1, text="kettle\ufffd")


async def test_an_outcome_ends_what_is_remembered_of_its_session(tmp_path: Path) -> None:
    """A task is tried again under its name, with the same requests; one client tries again after the outcome."""
    upstream = Upstream(lambda body, count: click(count))
    async with serving(upstream, tmp_path) as client:

        async def told(step: int, retry: str = "0") -> int:
            headers = {"x-stainless-retry-count": retry}
            return await client.ask_click(browser_use("shoes", step), "x", headers=headers)

        first = [await told(1), await told(1), await told(2), await told(2)]
        ended = [(await client.end("x", {"success": False})).status_code]
        late = await told(2, retry="1")
        again = [await told(1), await told(2, retry="1"), await told(2)]
        ended.append((await client.end("x", {"success": True})).status_code)
    assert (first, late, again, ended) == ([1, 1, 2, 2], 2, [3, 4, 4], [200, 200])
    assert [(one.verdict.outcome, len(one.steps)) for one in episodes(tmp_path)] == [("failure", 2), ("success", 2)]
