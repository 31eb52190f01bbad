"""A chat model says whether a golden step is among candidates, in meaning (Best-of-Q, 4.5, H, Fig. 10)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bestofq.agents.json_replies import object_schema
from bestofq.agents.prompting import GOLDEN, prompt_hash, render
from bestofq.agents.structured_output import Prompts, ask_json
from bestofq.core.actions import identity
from bestofq.core.decision import Candidate
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request, user
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import Usage

_SCHEMA = object_schema(
    {"rationale": {"type": "string"}, "contained": {"type": "boolean"}, "matched_index": {"type": ["integer", "null"]}}
)


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which candidate means what the golden step does; `read` is False where no reply could be read."""

    index: int | None
    rationale: str
    read: bool = True
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GoldenMatcher:
    """Asks greedily. A candidate that says the same is found without asking; of several, the same action."""

    model: LanguageModel

    @property
    def name(self) -> str:
        """The model and the prompts' hash."""
        return f"{self.model.name}, prompt {prompt_hash(GOLDEN)[:8]}"

    async def match(self, goal: str, golden: Candidate, candidates: Sequence[Candidate]) -> Match:
        """ModelError when the endpoint gives no reply. A reply that cannot be read gets one repair turn."""
        same = [index for index, candidate in enumerate(candidates) if candidate.label == golden.label]
        if len(same) > 1:
            same = [i for i in same if identity(candidates[i].action) == identity(golden.action)]
        if same:
            return Match(index=same[0], rationale="it says the same")
        # What Fig. 10 asks for, in our words.
        text = render("golden_user", goal=goal, golden=golden, candidates=candidates)
        messages = user(text, system=render("golden_system"))

        async def prompts() -> Prompts:
            yield Request(messages=messages, schema=_SCHEMA, name="match"), None

        found, usage = await ask_json(
            self.model,
            prompts(),
            lambda data: _read(data, len(candidates)),
            "judge",
            lambda error: Match(index=None, rationale=str(error), read=False),
        )
        return replace(found, usage=usage)


def _read(data: dict[str, Any], count: int) -> Match:
    """ReplyError in words that help the model fix it."""
    if not isinstance(data.get("contained"), bool):
        raise ReplyError('"contained" must be true or false')
    rationale = " ".join(str(data.get("rationale", "")).split())
    index = data.get("matched_index") if data["contained"] else None
    if data["contained"] and (isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count):
        raise ReplyError(f'"matched_index" is {index!r}: it must be a whole number from 0 to {count - 1}')
    return Match(index=index, rationale=rationale)
