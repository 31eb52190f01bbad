"""A language model in the place of a task's user, for ASK USER HELP (Agent Q, 6.1)."""

from dataclasses import dataclass, field
from typing import Any

from bestofq.agents.json_replies import object_schema
from bestofq.agents.prompting import render
from bestofq.agents.structured_output import ask_json, only
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request, user
from bestofq.core.observation import Task
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import Usage

SILENT = "I cannot say."
_SCHEMA = object_schema({"reply": {"type": "string"}})


@dataclass(frozen=True)
class ModelUser:
    """`SimulatedUser`, greedy. A question has one answer: all agents get the same. A reply that cannot be read gets one
    repair turn and then counts as `SILENT`."""

    model: LanguageModel
    _answers: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    async def reply(self, task: Task, details: str, question: str) -> tuple[str, tuple[Usage, ...]]:
        """Return the answer and its usage. ModelError if the endpoint gives none."""
        key = task.goal, details, question
        if key in self._answers:
            return self._answers[key], ()
        text = render("user_question", goal=task.goal, details=details, question=question)
        request = Request(messages=user(text, system=render("user_system")), schema=_SCHEMA, name="answer")
        answer, usage = await ask_json(self.model, only(request), _read, "user", lambda _: SILENT)
        return self._answers.setdefault(key, answer), usage


def _read(data: dict[str, Any]) -> str:
    answer = data.get("reply")
    if not isinstance(answer, str) or not answer.strip():
        raise ReplyError('"reply" must be a text')
    return " ".join(answer.split())
