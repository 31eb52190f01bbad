"""Agents behind `serve --plain`: they ask in plain words, and their replies are JSON, a command or other words."""

import json
import time
from pathlib import Path

import pytest

from bestofq.serve.wire import candidate, is_final, parse_request
from tests.serve.agents import Body, Upstream, by_label, completion, episodes, serving

PAGES = (
    '[1] <a href="/">Home</a>\n[2] button "Size S"\n[3] textbox Search',
    "1. link: Home\n2. button: Size S\n3. textbox: Search",
    "click 1: Home\nclick 2: Size S\ntype 3: Search",
    "- [1]: Home (link)\n- [2] <button class=s>Size S</button>\n- [3] <input> Search",
)
REPLIES = {
    '{"action": "click", "index": 2}': "click button Size S",
    'I choose a size.\n```json\n{"thought": "S", "action": {"type": "click", "id": "2"}}\n```': "click button Size S",
    '{"name": "click", "arguments": {"element_id": 2}}': "click button Size S",
    '{"action": "CLICK 2"}': "click button Size S",
    "Action: click(2)": "click button Size S",
    "Thought: small\nAction: Click\nAction Input: 2": "click button Size S",
    '**Action:** `click`\n**Action Input:** {"index": 2}\nObservation: [3]': "click button Size S",
    "THOUGHT: the size first\nCLICK [2]": "click button Size S",
    '{"reasoning": "so", "tool": "type", "args": {"n": 3, "value": "oak"}}': 'write textbox Search "oak"',
    '{"actions": [{"action": "click 2"}, {"action": "click 1"}]}': "click button Size S; click link Home",
    '{"action": "click 2"} {"action": "click", "id": 1}': "click button Size S; click link Home",
    '{"thought": "over", "action": "done"}': '{"action": "done"}',
    '{"action": "click", "element": 9}': '{"action": "click", "element": 9}',
    "I am done.": "I am done.",
    '<think>{"action": "click 1"}?</think>{"action": "click 2"}': "click button Size S",
    "**Action:** `click [2]`": "click button Size S",
    '{"action": "cli': '{"action": "cli',
}


def asks(page: str, goal: str = "Buy an oak chair") -> Body:
    words = f"Goal: {goal}\n\nURL: http://shop.test/item/4\nPage title: Chair\n\nElements:\n{page}\n\nWhat next?"
    return {"model": "m", "messages": [{"role": "system", "content": "You act."}, {"role": "user", "content": words}]}


@pytest.mark.parametrize("page", PAGES)
def test_goal_and_page_are_found_by_their_lines(page: str) -> None:
    _, goal, seen, *_ = parse_request(asks(page), plain=True)
    assert (goal, seen.title, seen.url) == ("Buy an oak chair", "Chair", "http://shop.test/item/4")
    names = [(one.mark, one.name.removesuffix(" (link)")) for one in seen.elements]
    assert names[:2] == [(1, "Home"), (2, "Size S")]


@pytest.mark.parametrize("text", ["\n", "- ", "[1", "the ", "<a ", "goal: "])
def test_a_long_request_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert parse_request(asks(200_000 * text), plain=True)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_the_action_that_it_means(reply: str) -> None:
    found = candidate(parse_request(asks(PAGES[0]), plain=True), completion(reply))
    assert (found.label, json.loads(found.reply)["content"]) == (REPLIES[reply], reply)


def test_an_unknown_action_on_what_buys_seems_irreversible() -> None:
    wanted = parse_request(asks("[1] button 'Buy now'\n[2] link 'Home'"), plain=True)
    for said in ('"id": {}', '"node_id": "{}"', '"uid": "1_{}"', '"at": "[{}]"', '"refs": [{}]'):
        replies = (completion(f'{{"action": "press it", {said.format(mark)}}}') for mark in (1, 2))
        found = [is_final(candidate(wanted, reply), wanted.seen) for reply in replies]
        assert found == [True, False], said


async def test_its_steps_are_recorded_and_ranked_only_where_they_are_asked_for(tmp_path: Path) -> None:
    for name, config in (("passes", {}), ("plain", {"plain": True})):
        upstream = Upstream(lambda body, count: f'{{"action": "click", "index": {1 + (count + 1) % 2}}}')
        async with serving(upstream, tmp_path / name, by_label("Size"), mode="rank", n=2, **config) as agent:
            said = await agent.ask_message(asks(PAGES[0]), "one")
            assert json.loads(said["content"])["index"] == (2 if config else 1)
            await agent.end("one", {"success": True})
    assert not episodes(tmp_path / "passes")
    [episode] = episodes(tmp_path / "plain")
    assert [one.label for one in episode.steps[0].decision.candidates] == ["click link Home", "click button Size S"]
    assert episode.task.goal == "Buy an oak chair"
