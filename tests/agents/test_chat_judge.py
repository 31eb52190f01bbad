"""A chat endpoint as the judge, over real HTTP on loopback."""

import hashlib
import json
from typing import Any

import pytest

from bestofq.agents.judges.chat import OPENTABLE_CRITERIA, ChatJudge
from bestofq.agents.prompting import Criteria
from bestofq.core.actions import Action, Answer, Click
from bestofq.core.decision import Candidate, Decision, Episode, Step
from bestofq.core.errors import ContextError, ModelError
from bestofq.core.observation import Observation, Screenshot
from bestofq.models.chat import ChatModel
from bestofq.testing.contracts import EPISODE
from bestofq.testing.fault_server import FaultServer

SUCCESS = '{"reason": "the  last page shows it", "verdict": "success"}'


def shot(content: str) -> Screenshot:
    data = content.encode()
    digest = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=digest, media_type="image/jpeg", width=8, height=8, data=data)


def page(text: str, picture: str | None = None) -> Observation:
    screenshot = None if picture is None else shot(picture)
    return Observation(url="http://soup.example/1", title="Soups", text=text, elements=(), screenshot=screenshot)


def episode(*pages: Observation, last: Action | None = None) -> Episode:
    """A step on each page but the last; the last step's action is an answer, or `last`."""
    actions: list[Action] = [Click(mark=1)] * (len(pages) - 2) + [last or Answer(text="Leek soup")]
    steps = [
        Step(
            index=n,
            observation=seen,
            decision=Decision(candidates=(Candidate(action=action, label=f"did {n}"),), scores=(0.0,), chosen=0),
        )
        for n, (seen, action) in enumerate(zip(pages[:-1], actions, strict=True))
    ]
    task = EPISODE.task.model_copy(update={"goal": "Find a soup"})
    return EPISODE.model_copy(update={"task": task, "steps": tuple(steps), "final": pages[-1]})


SEEN = episode(*(page(f"text {name}", name) for name in ("one", "two", "two", "three", "three")))


def model(server: FaultServer, **settings: Any) -> ChatModel:
    return ChatModel.at(server.base_url, "gpt-4.1", attempts=3, **settings)


def content(server: FaultServer, request: int = 0, turn: int = 1) -> tuple[str, list[str]]:
    """The text and the pictures of a turn."""
    said = server.requests[request]["messages"][turn]["content"]
    if isinstance(said, str):
        return said, []
    return said[0]["text"], [part["image_url"]["url"] for part in said[1:]]


async def test_task_answer_and_the_last_distinct_screenshots() -> None:
    async with FaultServer(lambda _: SUCCESS) as server, model(server) as chat:
        judge = ChatJudge(model=chat, screenshots=2)
        verdict = await judge.judge(SEEN)
    assert (verdict.reward, verdict.outcome, verdict.reason) == (1.0, "success", "the last page shows it")
    assert verdict.judge == judge.name
    assert judge.name.startswith("gpt-4.1, 2 screenshots, prompt ")
    (usage,) = verdict.usage
    assert (usage.role, usage.calls, usage.tokens_in, usage.usd) == ("judge", 1, 100, (100 * 2 + 20 * 8) / 1e6)
    text, pictures = content(server)
    assert "Find a soup" in text
    assert "Leek soup" in text
    assert "text three" not in text
    assert "did 0" not in text
    assert [url.partition(",")[2] for url in pictures] == ["dHdv", "dGhyZWU="]  # two, three
    assert server.requests[0]["temperature"] == 0.0
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["verdict"]["enum"] == ["success", "failure", "blocked", "impossible"]


@pytest.mark.parametrize("screenshots", [0, 15])
async def test_without_pictures_the_actions_and_the_last_page(screenshots: int) -> None:
    plain = episode(page("text one"), page("text two"), page("text three"), last=Click(mark=1))
    async with FaultServer(lambda _: SUCCESS) as server, model(server) as chat:
        await ChatJudge(model=chat, screenshots=screenshots).judge(plain if screenshots else SEEN)
    text, pictures = content(server)
    assert pictures == []
    assert "1. did 0\n2. did 1\n" in text
    assert "text three" in text
    assert ("(none)" in text) == bool(screenshots)


@pytest.mark.parametrize("outcome", ["success", "failure", "blocked", "impossible"])
async def test_only_success_earns(outcome: str) -> None:
    async with FaultServer(lambda _: json.dumps({"verdict": outcome.upper()})) as server, model(server) as chat:
        verdict = await ChatJudge(model=chat).judge(SEEN)
    assert (verdict.outcome, verdict.reward) == (outcome, float(outcome == "success"))


WHOLE = {name: {"reason": "", "met": True} for name in OPENTABLE_CRITERIA}
PART = json.dumps({name: WHOLE[name] for name in OPENTABLE_CRITERIA[:3]})


@pytest.mark.parametrize(
    ("criteria", "replies", "problem"),
    [
        (None, ["NOT SUCCESS", SUCCESS, '{"verdict": "perhaps"}', "[]"], "'perhaps'"),
        ("opentable", [PART, json.dumps(WHOLE), PART, '{"completed": true}'], '"completed" must be'),
    ],
)
async def test_a_reply_without_a_verdict_gets_one_repair_turn_and_is_unparseable_then(
    criteria: Criteria | None, replies: list[str], problem: str
) -> None:
    said = iter(replies)
    async with FaultServer(lambda _: next(said)) as server, model(server) as chat:
        judge = ChatJudge(model=chat, criteria=criteria)
        mended, given_up = await judge.judge(SEEN), await judge.judge(SEEN)
    assert (mended.outcome, mended.usage[0].calls) == ("success", 2)
    assert (given_up.outcome, given_up.reward, given_up.usage[0].calls) == ("unparseable", 0.0, 2)
    assert [len(request["messages"]) for request in server.requests] == [2, 4, 2, 4]
    assert problem in content(server, 3, 3)[0]


async def test_what_is_too_long_is_asked_with_less() -> None:
    long = episode(*(page("x" * 4000, name) for name in ("one", "two", "three", "four")))
    async with FaultServer(lambda _: SUCCESS, script=["overflow"] * 4) as server, model(server) as chat:
        assert (await ChatJudge(model=chat).judge(long)).outcome == "success"
    shown = [content(server, request) for request in range(5)]
    assert [len(pictures) for _, pictures in shown] == [4, 2, 1, 0, 0]
    assert [text.count("xxxx") for text, _ in shown] == [0, 0, 0, 1000, 500]
    assert shown[1][1][-1] == shown[0][1][-1]  # the earliest go first
    async with FaultServer(lambda _: "", {"overflow": 1.0}) as server, model(server) as chat:
        with pytest.raises(ContextError):
            await ChatJudge(model=chat).judge(long)


async def test_an_endpoint_that_is_away_is_no_verdict() -> None:
    async with FaultServer(lambda _: "", {"500": 1.0}) as server, model(server) as chat:
        with pytest.raises(ModelError):
            await ChatJudge(model=chat).judge(SEEN)


@pytest.mark.parametrize("unmet", [[], ["date_and_time"], ["user_information", "completed"]])
async def test_a_reservation_is_a_success_if_it_meets_all_four_criteria(unmet: list[str]) -> None:
    reply = {name: {"reason": f"as I  read {name}", "met": name not in unmet} for name in OPENTABLE_CRITERIA}
    async with FaultServer(lambda _: json.dumps(reply)) as server, model(server) as chat:
        judge = ChatJudge(model=chat, screenshots=2, criteria="opentable")
        verdict = await judge.judge(SEEN)
    assert (verdict.outcome, verdict.reward) == ("failure" if unmet else "success", float(not unmet))
    for name in OPENTABLE_CRITERIA:
        words = "not met" if name in unmet else "met"
        assert f"{name.replace('_', ' ')} {words} (as I read {name})" in verdict.reason
    assert judge.name != ChatJudge(model=chat, screenshots=2).name
    assert "What the agent did:\n1. did 0\n" in content(server)[0]
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == list(OPENTABLE_CRITERIA)
