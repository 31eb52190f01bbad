"""A chat model as the judge, in WebVoyager's setting: task, answer and last screenshots (He et al. 2024). Or in Agent
Q's: the last screenshot with the actions (Fig. 5), by four criteria for reservations (6.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bestofq.agents.json_replies import object_schema
from bestofq.agents.prompting import JUDGE, OPENTABLE, SCREENSHOTS, Criteria, prompt_hash, render
from bestofq.agents.structured_output import Prompts, ask_json
from bestofq.core.actions import Answer, AskUser
from bestofq.core.decision import DECIDED, Episode, Outcome, Verdict
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request, user
from bestofq.core.observation import Screenshot
from bestofq.core.protocols import LanguageModel

SHORTEST = 500  # characters of a page: shorter ones are not halved
OPENTABLE_CRITERIA = ("date_and_time", "party_size", "user_information", "completed")  # Agent Q, 6.1
_SCHEMA = object_schema({"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(DECIDED)}})
_CRITERION = object_schema({"reason": {"type": "string"}, "met": {"type": "boolean"}})
_OPENTABLE_SCHEMA = object_schema(dict.fromkeys(OPENTABLE_CRITERIA, _CRITERION))


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """`Judge` over a language model, greedy. It sees the last `screenshots` distinct pictures that carry their bytes.

    With one picture it sees the actions too. With none (`screenshots` is 0 for a model without eyes) it sees the
    actions and the text of the last page. A reply without a verdict gets one repair turn and then is `unparseable`. If
    a prompt is too long, the next one has half the pictures, then none, then half the text, and so on.

    `criteria`: "opentable" judges a reservation by the four of Agent Q, 6.1. It is a success if all are met, else a
    failure. The judge always sees the actions, and gives a reason for each criterion. None: the task as a whole.
    """

    model: LanguageModel
    screenshots: int = SCREENSHOTS
    criteria: Criteria | None = None

    @property
    def name(self) -> str:
        """The model, how much it sees, any criteria, and the prompts' hash."""
        criteria = f", {self.criteria} criteria" if self.criteria else ""
        hashed = prompt_hash(OPENTABLE if self.criteria else JUDGE)[:8]
        return f"{self.model.name}, {self.screenshots} screenshots{criteria}, prompt {hashed}"

    async def judge(self, episode: Episode) -> Verdict:
        """ModelError if the endpoint gives no reply, ContextError if not even a short text fits."""
        (outcome, reason), usage = await ask_json(
            self.model,
            self._prompts(episode),
            _read_opentable if self.criteria else _read,
            "judge",
            lambda error: ("unparseable", str(error)),
        )
        return Verdict(reward=float(outcome == "success"), outcome=outcome, reason=reason, judge=self.name, usage=usage)

    async def _prompts(self, episode: Episode) -> Prompts:
        steps, final = episode.steps, episode.final or episode.steps[-1].observation
        last = steps[-1].decision.candidate.action if steps else None
        pictures, page = _pictures(episode, self.screenshots), final.text
        system, schema = ("judge_opentable_system", _OPENTABLE_SCHEMA) if self.criteria else ("judge_system", _SCHEMA)

        def prompt() -> tuple[Request, None]:
            text = render(
                "judge_user",
                goal=episode.task.goal,
                answer=last.text if isinstance(last, Answer) else None,
                history=_actions(episode) if self.criteria or len(pictures) < 2 else (),
                title=final.title,
                url=final.url,
                page=page,
                pictures=len(pictures),
            )
            # What He et al. 2024 ask of their judge, in our words, and two classes more.
            messages = user(text, pictures, system=render(system, pictures=len(pictures)))
            return Request(messages=messages, schema=schema, name="verdict"), None

        yield prompt()
        while pictures:
            pictures = pictures[len(pictures) - len(pictures) // 2 :]
            yield prompt()
        while len(page) // 2 >= SHORTEST:
            page = page[: len(page) // 2]
            yield prompt()


def _pictures(episode: Episode, most: int) -> tuple[Screenshot, ...]:
    """The last ones that carry their bytes, oldest first. An unchanged page counts once."""
    pages = [*(step.observation for step in episode.steps), *([episode.final] if episode.final else [])]
    shots = [page.screenshot for page in pages if page.screenshot and page.screenshot.data]
    changed = [next(same) for _, same in groupby(shots, key=lambda shot: shot.sha256)]
    return tuple(changed[-most:]) if most else ()


def _actions(episode: Episode) -> list[str]:
    lines = []
    pages = (*(step.observation for step in episode.steps[1:]), episode.final)
    for step, after in zip(episode.steps, pages, strict=False):
        candidate = step.decision.candidate
        replies = after.notices if after and isinstance(candidate.action, AskUser) else ()
        lines.append(" ".join((candidate.label, *replies)))
    return lines


def _read(data: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Outcome and reason of a reply. ReplyError in words that help the model fix it."""
    verdict = str(data.get("verdict", "")).strip().lower()
    if verdict not in DECIDED:
        raise ReplyError(f'"verdict" is {verdict!r}: it must be one of {", ".join(DECIDED)}')
    reason = data.get("reason")
    return verdict, " ".join(reason.split()) if isinstance(reason, str) else ""


def _read_opentable(data: Mapping[str, Any]) -> tuple[Outcome, str]:
    """The same of a reply with a verdict on each criterion."""
    reasons, success = [], True
    for name in OPENTABLE_CRITERIA:
        match data.get(name):
            case {"met": bool() as met, **rest}:
                why = " ".join(str(rest.get("reason", "")).split())
            case _:
                raise ReplyError(f'"{name}" must be an object with "reason" and with "met", true or false')
        success &= met
        reasons.append(f"{name.replace('_', ' ')} {'met' if met else 'not met'}" + (f" ({why})" if why else ""))
    return "success" if success else "failure", "; ".join(reasons)
