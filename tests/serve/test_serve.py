"""Agents behind `serve`: real clients and a real upstream over HTTP; they ask as browser-use and users of tools do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bestofq.agents.scorers.memory import step_keys
from bestofq.core.decision import Candidate
from bestofq.reports.rollout import replay
from bestofq.serve.wire import candidate, parse_request
from bestofq.store.store import Store
from tests.serve.agents import (
    JUDGE,
    PAGE,
    TOOLS,
    Body,
    Upstream,
    browser_use,
    by_label,
    called,
    click,
    completion,
    episodes,
    judging,
    proxying,
    serving,
)


def test_a_goal_in_a_message_of_its_own_is_no_part_of_the_page() -> None:
    said = [{"role": "system", "content": "You click."}]
    said += [{"role": "user", "content": one} for one in ("Goal: buy a kettle", "Kettles\n[1] button 'Basket'")]
    wanted = parse_request({"messages": said, "tools": TOOLS})
    assert wanted is not None
    assert (wanted.goal, wanted.seen.text) == ("Goal: buy a kettle", "Kettles\n[1] button 'Basket'")


async def test_recording_changes_no_byte_and_keeps_the_episode_without_the_key(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(1, "saw shoes", "open them"))
    async with serving(upstream, tmp_path) as client:
        asks = browser_use("buy red shoes", 1)
        headers = {"authorization": "Bearer sk-secret"}
        got = await client.ask(asks, "one", headers=headers)
        assert upstream.asked == [asks]
        assert upstream.headers[0]["authorization"] == "Bearer sk-secret"
        assert got.content.startswith(b'{\n   "id": "r1"')
        done = await client.end("one", {"success": True, "reward": 0.75})
        assert done.json() == {"session": "one", "outcome": "success"}
        again = await client.end("one", {"success": True})
        assert again.status_code == 404
        assert (await client.end("one", {})).status_code == 422
    [episode] = episodes(tmp_path)
    assert (episode.task.goal, episode.verdict.outcome, episode.verdict.reward) == ("buy red shoes", "success", 0.75)
    [step] = episode.steps
    assert step.observation.text == PAGE
    assert step.decision.candidate.label == "click link red shoes"
    assert (step.decision.usage[0].tokens_in, step.decision.usage[0].calls) == (10, 1)
    assert not any(b"sk-secret" in file.read_bytes() for file in tmp_path.glob("*.sqlite*"))  # noqa: ASYNC240


def test_an_element_is_called_what_the_page_calls_it() -> None:
    wanted = parse_request(browser_use("buy", 1))
    assert wanted is not None
    parts = completion([{"type": "thinking", "thinking": "so"}, {"type": "text", "text": click(1)}])
    replies = (parts, *(completion(click(n)) for n in (2, 3, 9)))
    labels = [one.label for reply in replies if (one := candidate(wanted, reply))]
    assert labels == ["click link red shoes", "click button Buy now today", "click link blue shoes", "click [9]"]


async def test_a_page_comes_again_though_the_browser_numbers_all_anew(tmp_path: Path) -> None:
    async with serving(Upstream(lambda body, count: click(10 * count)), tmp_path) as client:
        for visit, tab, token in ((1, "6B9E", "JCV2DUEsdUit"), (2, "A0F3", "Od4EsUdWL8xX")):
            url = f"http://shop.example/v/{token}/item/P{visit}?token={token}"
            page = (
                f"Current tab: {tab}\nTab 1B: about:blank - Blank\nTab {tab}: {url} - Kettles\n[{visit}0]<a />\n\tBuy"
            )
            asks = json.dumps(browser_use("a kettle", 1)).replace(json.dumps(PAGE)[1:-1], json.dumps(page)[1:-1])
            await client.post(f"/sessions/{visit}/v1/chat/completions", content=asks)
    found = episodes(tmp_path)
    assert [one.steps[0].observation.title for one in found] == ["Kettles", "Kettles"]
    first, second = (next(step_keys(one))[one.steps[0].decision.chosen] for one in found)
    assert found[0].steps[0].observation.page != found[1].steps[0].observation.page
    assert (first[0], first[2]) == (second[0], second[2])  # the kind of page, and the action on it


async def test_what_is_no_decision_passes_through(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: "a summary")
    async with serving(upstream, tmp_path) as agent, agent.openai() as client:
        assert [one.id async for one in client.models.list()] == ["m"]
        said = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "sum up"}])
        assert said.choices[0].message.content == "a summary"
    assert episodes(tmp_path) == []
    odd = [{"role": "assistant", "tool_calls": [5]}], [{"role": "user", "content": "<browser_state>" * 40_000}]
    async with serving(upstream, tmp_path, explore=0.5) as agent:
        for more in [{"messages": messages} for messages in odd] + [{"temperature": "hot"}]:
            got = await agent.ask({**browser_use("x", 1), **more}, timeout=9)
            assert got.status_code == 200


async def test_ranking_answers_with_one_of_the_replies_and_all_that_was_spent(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> dict[str, Any]:
        where = "first" if body.get("temperature") is None else "second"
        return called(f"call_{count}", json.dumps({"on": where}))

    upstream = Upstream(reply)
    async with serving(upstream, tmp_path, by_label("second"), mode="rank", n=3) as agent, agent.openai() as client:
        asks: dict[str, Any] = {"model": "m", "tools": TOOLS}
        messages: list[Any] = [{"role": "user", "content": "buy shoes"}]
        for page in ("page one", "page two"):
            said: Any = await client.chat.completions.create(**asks, messages=messages)
            [call] = said.choices[0].message.tool_calls
            assert json.loads(call.function.arguments) == {"on": "second"}
            assert (said.usage.prompt_tokens, said.usage.total_tokens) == (30, 36)
            messages += [said.choices[0].message.model_dump(exclude_none=True)]
            messages += [{"role": "tool", "tool_call_id": call.id, "content": page}]
    assert [body.get("temperature") for body in upstream.asked].count(1.0) == 4
    [episode] = episodes(tmp_path)
    assert [step.observation.text for step in episode.steps] == ["buy shoes", "page one"]
    for step in episode.steps:
        assert [one.label for one in step.decision.candidates] == ['click {"on": "first"}', 'click {"on": "second"}']
        assert (step.decision.chosen, step.decision.scores, step.decision.candidate.votes) == (1, (0.0, 1.0), 2)
    assert episode.agent == "best-of-q"
    assert episode.verdict.outcome == "unjudged"


async def test_a_shadow_changes_nothing_and_keeps_what_q_finds(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(1 if body["temperature"] == 0.2 else 3))
    async with serving(upstream, tmp_path, by_label("blue"), mode="shadow") as client:
        got = (await client.ask(browser_use("buy shoes", 1))).json()
        assert json.loads(got["choices"][0]["message"]["content"])["action"] == [{"click": {"index": 1}}]
        assert got["usage"]["total_tokens"] == 12
    [step] = episodes(tmp_path)[0].steps
    assert (step.decision.chosen, step.decision.scores) == (0, (0.0, 1.0))


async def test_an_irreversible_alternative_needs_an_irreversible_greedy_one(tmp_path: Path) -> None:
    greedy = 1

    def reply(body: Body, count: int) -> str:
        return click(greedy if body["temperature"] == 0.2 else 2)

    async with serving(Upstream(reply), tmp_path, by_label("Buy now"), mode="rank") as client:
        assert await client.ask_click(browser_use("shoes", 1), "a") == 1
        greedy = 2
        assert await client.ask_click(browser_use("shoes", 1), "b") == 2


async def test_without_a_readable_greedy_reply_nothing_irreversible_is_taken(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> str:
        return "I would buy" if body["temperature"] == 0.2 else click(2)

    async with serving(Upstream(reply), tmp_path, by_label("Buy now"), mode="rank") as client:
        assert (await client.ask_message(browser_use("shoes", 1)))["content"] == "I would buy"
    assert episodes(tmp_path) == []


async def test_exploring_takes_another_reply_with_a_known_chance_and_never_an_irreversible_one(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> str:
        return click(1) if body["temperature"] == 0.2 else click(3 if count % 2 else 2)

    config: dict[str, Any] = {"n": 6, "explore": 0.4, "explore_steps": 1}
    async with serving(Upstream(reply), tmp_path, **config) as client:
        for session in range(30):
            for step in (1, 2):
                assert await client.ask_click(browser_use("buy shoes", step), f"s{session}") in (1, 3)
    first = [episode.steps[0].decision for episode in episodes(tmp_path)]
    second = [episode.steps[1].decision for episode in episodes(tmp_path)]
    assert 3 <= sum(decision.explored for decision in first) <= 21  # outside in 1 of 1,600 runs
    for before, after in zip(first, second, strict=True):
        for decision, share in ((before, 0.4), (after, 0.0 if before.explored else 0.4)):
            for offered, chance in zip(decision.candidates, decision.propensities, strict=True):
                assert chance == pytest.approx({1: 1 - share, 2: 0.0, 3: share}[mark_of(offered)])
            assert decision.explored == (decision.chosen != 0)


def mark_of(candidate: Candidate) -> int:
    return next(index for index, word in ((1, "red"), (2, "Buy"), (3, "blue")) if word in candidate.label)


async def test_an_outcome_without_a_name_ends_the_last_session_of_the_same_key(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(1, f"memory {count}"))
    async with serving(upstream, tmp_path) as client:
        for key, goal in (("a", "buy shoes"), ("b", "find socks"), ("a", "sell hats"), ("b", "mend a coat")):
            await client.ask(browser_use(goal, 1), headers={"authorization": f"Bearer {key}"})
        for headers in ({"authorization": "Bearer a"}, {}, {"authorization": "Bearer a"}):
            assert (await client.post("/outcome", json={"success": True}, headers=headers)).status_code == 200
        none = await client.post("/outcome", json={"success": True}, headers={"authorization": "Bearer a"})
        assert none.status_code == 404
    ended = {episode.task.goal: episode.verdict.outcome for episode in episodes(tmp_path)}
    assert ended == {
        "buy shoes": "success", "find socks": "unjudged", "sell hats": "success", "mend a coat": "success",
    }  # fmt: skip


async def test_a_rollout_of_a_harmful_q_ends_itself_and_stays_ended_after_a_restart(tmp_path: Path) -> None:
    """Blue is what Q wants and always fails; the agent's own red always succeeds."""
    upstream = Upstream(lambda body, count: click(1 if body["temperature"] == 0.2 else 3))

    async def sessions(count: int, start: int) -> list[int]:
        """Return what was taken in each of so many sessions of one process."""
        taken: list[int] = []
        with Store.open(tmp_path) as store:
            state = replay(store.summaries(run="serve"), "best-of-q")[-1]
        arms = ("prompting", "best-of-q")
        async with serving(upstream, tmp_path, by_label("blue"), arms, state, mode="rank", n=2) as client:
            for number in range(start, start + count):
                taken.append(await client.ask_click(browser_use("shoes", 1), f"s{number}"))
                await client.end(f"s{number}", {"success": taken[-1] == 1})
        return taken

    first = await sessions(90, 0)
    assert 1 <= first.count(3) <= 20
    assert 3 not in first[-20:]
    assert 3 not in await sessions(30, 90)


async def test_who_asks_again_gets_the_same_reply(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(count))
    async with serving(upstream, tmp_path) as client:
        for retry in ("0", "1", "2"):
            headers = {"x-stainless-retry-count": retry}
            assert await client.ask_click(browser_use("shoes", 1), headers=headers) == 1
        await client.ask(browser_use("shoes", 1))  # another agent
    assert len(upstream.asked) == 2
    assert [len(episode.steps) for episode in episodes(tmp_path)] == [1, 1]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({"verdict": True}, "success"),
        ({"verdict": False, "reached_captcha": True}, "blocked"),
        ({"verdict": False, "impossible_task": True}, "impossible"),
        ({"verdict": False, "failure_reason": "wrong size"}, "failure"),
        ({"answer": "I am done"}, "unjudged"),
    ],
)
async def test_the_agent_s_judge_is_believed_and_the_agent_not(
    tmp_path: Path, said: dict[str, Any], outcome: str
) -> None:
    def reply(body: Body, count: int) -> str:
        done = json.dumps({"action": [{"done": {"text": "bought", "success": True}}]})
        return json.dumps(said) if body["response_format"] == JUDGE else done

    async with serving(Upstream(reply), tmp_path) as client:
        await client.ask(browser_use("buy shoes", 1))
        await client.ask(judging("buy shoes"))
    [episode] = episodes(tmp_path)
    assert episode.verdict.outcome == outcome
    assert episode.verdict.judge == ("" if outcome == "unjudged" else "browser-use's judge")


async def test_a_third_of_the_upstream_s_answers_are_errors_and_the_agent_never_knows(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: (429, 500, 503)[count % 3] if count % 3 == 1 else click(1, f"m{count}"))
    async with serving(upstream, tmp_path, by_label("red"), mode="rank", n=1) as agent, agent.openai() as client:
        memory = ""
        for step in range(6):
            said = await client.chat.completions.create(**browser_use("shoes", step + 1, memory))
            memory += json.loads(said.choices[0].message.content or "")["memory"]
    [episode] = episodes(tmp_path)
    assert len(episode.steps) == 6


async def test_what_has_come_by_the_deadline_is_ranked_and_an_upstream_that_is_gone_is_a_502(tmp_path: Path) -> None:
    async def reply(body: Body) -> str:
        await asyncio.sleep(30 if body["temperature"] == 0.2 else 0)
        return click(3)

    upstream = Upstream(lambda body, count: reply(body))
    async with serving(upstream, tmp_path, by_label("red"), mode="rank", deadline=0.5) as client:
        assert await client.ask_click(browser_use("shoes", 1)) == 3
    with Store.open(tmp_path / "gone") as store:
        async with proxying("http://127.0.0.1:9/v1", store) as client:
            got = await client.ask(browser_use("shoes", 1))
            assert got.status_code == (await client.get("/v1/models")).status_code == 502


async def test_a_client_that_streams_gets_events_and_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestofq.serve.app.KEPT_ALIVE", 0.05)

    async def slow() -> dict[str, Any]:
        await asyncio.sleep(0.2)
        return called("c1") | {"content": "so"}

    async with serving(Upstream(lambda body, count: slow()), tmp_path) as agent, agent.openai() as client:
        asks: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "shoes"}], "tools": TOOLS}
        chunks = [one async for one in await client.chat.completions.create(**asks, stream=True)]
        assert chunks[0].choices[0].delta.tool_calls[0].function.name == "click"
        assert all(chunk.choices for chunk in chunks)  # clients that did not ask for the usage read `choices[0]`
        asks["stream_options"] = {"include_usage": True}
        chunks = [one async for one in await client.chat.completions.create(**asks, stream=True)]
        assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 12)
        got = await agent.ask({**asks, "stream": True})
        assert got.text.startswith(": waiting\n\n")
        assert got.text.endswith("data: [DONE]\n\n")
    assert [len(episode.steps) for episode in episodes(tmp_path)] == [1, 1, 1]
