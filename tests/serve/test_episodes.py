"""Which episode a request without a name belongs to: agents at once, ids that repeat, clients that try again."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.serve.agents import TOOLS, Body, Upstream, browser_use, click, episodes, serving

STEPS = 50


async def test_four_agents_at_once_without_any_id_of_their_own(tmp_path: Path) -> None:
    """Two share a goal, and the upstream gives every call of every agent the same id."""

    async def reply(body: Body) -> dict[str, Any]:
        await asyncio.sleep(len(json.dumps(body)) % 7 / 1000)
        call = {"id": "call_0", "type": "function", "function": {"name": "click", "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    async def agent(client: httpx.AsyncClient, root: str, name: str, goal: str) -> None:
        talk: list[Any] = [{"role": "user", "content": goal}]
        for step in range(STEPS):
            body = {"model": "m", "messages": talk, "tools": TOOLS}
            got = await client.post(f"{root}/v1/chat/completions", json=body)
            message = got.json()["choices"][0]["message"]
            [call] = message["tool_calls"]
            talk += [message, {"role": "tool", "tool_call_id": call["id"], "content": f"{name} saw {step}"}]

    agents = {"one": "buy shoes", "two": "buy shoes", "three": "buy hats", "four": "buy coats"}
    async with serving(Upstream(lambda body, count: reply(body)), tmp_path) as root, httpx.AsyncClient() as client:
        await asyncio.gather(*(agent(client, root, name, goal) for name, goal in agents.items()))
    right = 0
    for episode in episodes(tmp_path):
        seen = Counter(step.observation.text.split()[0] for step in episode.steps[1:])
        right += 1 + max(seen.values(), default=0)
    assert len(episodes(tmp_path)) == len(agents)
    assert right >= 0.99 * STEPS * len(agents)


async def test_an_id_that_no_other_session_has_is_left_as_it_is(tmp_path: Path) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "click", "arguments": "{}"}}
    upstream = Upstream(lambda body, count: {"role": "assistant", "content": None, "tool_calls": [call]})
    async with serving(upstream, tmp_path) as root, httpx.AsyncClient() as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "shoes"}], "tools": TOOLS}
        first, second = [(await client.post(f"{root}/v1/chat/completions", json=body)).json() for _ in "ab"]
    ids = [one["choices"][0]["message"]["tool_calls"][0]["id"] for one in (first, second)]
    assert ids[0] == "call_0" != ids[1]


async def test_warnings_after_the_page_change_no_episode(tmp_path: Path) -> None:
    """browser-use adds a message of its own when its steps run out."""
    upstream = Upstream(lambda body, count: click(1, f"memory {count}"))
    async with serving(upstream, tmp_path) as root, httpx.AsyncClient() as client:
        await client.post(f"{root}/v1/chat/completions", json=browser_use("buy shoes", 1))
        last = browser_use("buy shoes", 2, "memory 1")
        last["messages"].append({"role": "user", "content": "BUDGET WARNING: 1 step remains."})
        await client.post(f"{root}/v1/chat/completions", json=last)
    [episode] = episodes(tmp_path)
    assert (episode.task.goal, len(episode.steps)) == ("buy shoes", 2)


async def test_who_gives_up_and_asks_again_gets_what_comes_first(tmp_path: Path) -> None:
    """The upstream never answers the first request; the second it answers at once."""

    async def reply(count: int) -> str:
        await asyncio.sleep(30 if count == 1 else 0)
        return click(count)

    asks, again = browser_use("shoes", 1), {"x-stainless-retry-count": "1"}
    upstream = Upstream(lambda body, count: reply(count))
    async with serving(upstream, tmp_path) as root, httpx.AsyncClient() as client:
        url = f"{root}/v1/chat/completions"
        try:
            await client.post(url, json=asks, timeout=0.3)
        except httpx.ReadTimeout:
            got = [await client.post(url, json=asks, headers=again, timeout=5) for _ in "ab"]
        assert {
            json.loads(one.json()["choices"][0]["message"]["content"])["action"][0]["click"]["index"] for one in got
        } == {2}
    assert len(upstream.asked) == 2
    [episode] = episodes(tmp_path)
    assert len(episode.steps) == 1
