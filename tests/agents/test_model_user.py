"""A model in the place of a task's user, over real HTTP: in the text site and in Chromium, and what it costs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from bestofq.agents.agent import Agent
from bestofq.agents.user import SILENT, ModelUser
from bestofq.config.context import answered_by, open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance, State
from bestofq.core.errors import ConfigError, ModelError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.reports.costs import spent_by_role
from bestofq.rollouts.episode import record_episode
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.booking.settings import BookingSettings
from bestofq_sites.booking.suite import build_booking

TASK = Task(id="t", suite="s", goal="book a table", start_url="/")


def guest(request: Mapping[str, Any]) -> str:
    """Knows the seating from its details."""
    known = request["messages"][1]["content"]
    seat = known.partition("Preferred seating: ")[2].partition(".")[0]
    return json.dumps({"reply": f"{seat or 'Anywhere'},\n please."})


async def test_it_is_told_the_details_and_says_the_same_each_time() -> None:
    async with FaultServer(guest) as server, ChatModel.at(server.base_url, "any") as model:
        user = ModelUser(model)
        said, used = await user.reply(TASK, "Preferred seating: Bar.", "Where do you sit?")
        assert (said, [(one.role, one.calls) for one in used]) == ("Bar, please.", [("user", 1)])
        assert await user.reply(TASK, "Preferred seating: Bar.", "Where do you sit?") == (said, ())
        assert (await user.reply(TASK, "", "Where do you sit?"))[0] == "Anywhere, please."
    asked = server.requests[0]["messages"][1]["content"]
    assert TASK.goal in asked
    assert "Where do you sit?" in asked
    assert [request["temperature"] for request in server.requests] == [0, 0]


async def test_a_reply_that_cannot_be_read_is_none_and_no_reply_is_the_machinery_s_fault() -> None:
    async with FaultServer(lambda _: '{"reply": ""}') as server, ChatModel.at(server.base_url, "any") as model:
        said, (used,) = await ModelUser(model).reply(TASK, "", "Who?")
    assert (said, used.calls) == (SILENT, 2)
    async with (
        FaultServer(guest, {"500": 1.0}) as server,
        ChatModel.at(server.base_url, "any", attempts=1) as model,
    ):
        with pytest.raises(ModelError):
            await ModelUser(model).reply(TASK, "", "Who?")


def settings(server: FaultServer, env: Literal["text", "browser"] = "text") -> BestOfQSettings:
    return BestOfQSettings(
        suite=BookingSettings(env=env, step_limit=2),
        endpoints={"user": ChatConfig(model="any", base_url=server.base_url)},
    )


def asking(state: State, n: int) -> list[str]:
    return ['ask "Where do you like to sit?"']


@pytest.mark.parametrize("env", ["text", "browser"])
async def test_on_the_booking_site_it_answers_and_is_counted(env: Literal["text", "browser"], tmp_path: Path) -> None:
    agent = Agent(name="asker", proposer=ScriptedProposer(asking))
    async with FaultServer(guest) as server, open_suite(Models(settings(server, env))) as suite:
        rules = build_booking(BookingSettings())
        task = next(t for t in await suite.tasks("dev", None) if rules.goals[t.id].seating)
        with Store.open(tmp_path) as store:
            await store.begin_run("r", {}, Provenance(version="test"))
            world = await suite.make_env()
            episode = await record_episode(agent, world, task, store=store, run="r")
            await world.close()
            stored = store.episode(episode.id)
    assert episode.steps[1].observation.notices == (f"The user replied: {rules.goals[task.id].seating}, please.",)
    spent = spent_by_role(stored.usage)
    assert (spent["user"].calls, spent["user"].tokens) == (1, 120)  # the second time it is the same question
    assert len(server.requests) == 1


async def test_an_environment_that_takes_no_user_is_refused() -> None:
    class Bare:
        """An environment of somebody's own."""

    async def make_env() -> Env:
        return Bare()  # type: ignore[return-value]

    async with FaultServer(guest) as server, ChatModel.at(server.base_url, "any") as model:
        with pytest.raises(ConfigError, match="Bare"):
            await answered_by(ModelUser(model), make_env)()
