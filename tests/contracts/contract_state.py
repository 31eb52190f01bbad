"""What scripted models and endpoints reply on the page of `bestofq.testing.contracts`."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bestofq.core.language import Request
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.testing.fault_server import FaultServer


@asynccontextmanager
async def endpoint(reply: object) -> AsyncIterator[ChatModel]:
    """A chat endpoint on loopback that always replies with this."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    async with (
        FaultServer(lambda _: text) as server,
        ChatModel(ChatConfig(model="any", base_url=server.base_url)) as model,
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
