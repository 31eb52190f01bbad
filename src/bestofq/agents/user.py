"""A language model in the place of a task's user, for ASK USER HELP (Agent Q, 6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import render
from bestofq.agents.structured_output import ask, only
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Task
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import Usage

SILENT = "I cannot say."
_SCHEMA = object_schema({"reply": {"type": "string"}})


@dataclass(frozen=True)
class ModelUser:
    """`SimulatedUser`, greedy. What was answered once is not asked again: all agents get the same answers. A reply that
    cannot be read gets one repair turn, and is `SILENT` then."""

    model: LanguageModel
    _said: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    async def reply(self, task: Task, details: str, question: str) -> tuple[str, tuple[Usage, ...]]:
        """The answer, and what it used. ModelError when the endpoint gives none."""
        key = task.goal, details, question
        if key in self._said:
            return self._said[key], ()
        text = render("user_question", goal=task.goal, details=details, question=question)
        messages = user(text, system=render("user_system"))
        request = Request(messages=messages, schema=_SCHEMA, name="answer")
        try:
            said, usage = await ask(self.model, only(request), _read, "user")
        except ReplyError as error:
            said, usage = SILENT, error.usage
        return self._said.setdefault(key, said), usage


def _read(replies: Sequence[Reply], _: Picture | None) -> str:
    said = json_of(replies[0]).get("reply")
    if not isinstance(said, str) or not said.strip():
        raise ReplyError('"reply" must be a text')
    return " ".join(said.split())
