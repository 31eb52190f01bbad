"""A page with two links of one name, and what agents weigh on it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, State
from bestofq.core.language import Request
from bestofq.core.observation import Element, Observation, Task
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.testing.fault_server import FaultServer

PAGE = Observation(
    url="/",
    title="Shop",
    text="Red [1] Blue [2]\nBlue [3]",
    elements=tuple(Element(mark=m, role="link", name=name) for m, name in ((1, "Red"), (2, "Blue"), (3, "Blue"))),
)
STATE = State(task=Task(id="t", suite="s", goal="a blue one", start_url="/"), observation=PAGE)
CANDIDATES = tuple(
    Candidate(action=Click(mark=m), label=f"click link {name}", log_prob=-float(m), reply=f" so\nclick [{m}]")
    for m, name in ((1, "Red"), (2, "Blue"), (3, "Blue"))
)


@asynccontextmanager
async def endpoint(reply: object) -> AsyncIterator[ChatModel]:
    """A chat endpoint on loopback that always replies with this."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    async with (
        FaultServer(lambda _: text) as server,
        ChatModel(ChatConfig(model="any", base_url=server.base_url, backoff=0.001)) as model,
    ):
        yield model


def commands(request: Request) -> Sequence[str]:
    """Replies of a scripted model: clicks on all elements, the first again, and nonsense."""
    clicks = [f" so\nclick [{mark}]" for mark in (1, 2, 3, 1)]
    return [*clicks, "nonsense"]


def composite(request: Request) -> Sequence[str]:
    """The same as composite actions."""
    return [f"PLAN: look\n{reply(mark)}" for mark in (1, 2, 3, 1)]


def reply(mark: int) -> str:
    """A composite action after the plan."""
    return f"THOUGHT: so\nCOMMANDS: CLICK [{mark}]\nEXPLANATION: I click\nSTATUS: CONTINUE"
