"""A chat model as the judge, in WebVoyager's setting: task, answer and last screenshots (He et al. 2024); or in Agent
Q's: the last screenshot alone, with what was done (Fig. 5), by four criteria for reservations (6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import JUDGE, OPENTABLE, SCREENSHOTS, Criteria, prompt_hash, render
from bestofq.agents.structured_output import Prompt, Prompts, ask
from bestofq.core.actions import Answer, AskUser
from bestofq.core.decision import DECIDED, Episode, Outcome, Verdict
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel

SHORTEST = 500  # characters of a page below which a judge is not asked
OPENTABLE_CRITERIA = ("date_and_time", "party_size", "user_information", "completed")  # Agent Q, 6.1
_SCHEMA = object_schema({"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(DECIDED)}})
_CRITERION = object_schema({"reason": {"type": "string"}, "met": {"type": "boolean"}})
_OPENTABLE_SCHEMA = object_schema(dict.fromkeys(OPENTABLE_CRITERIA, _CRITERION))


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """`Judge` over a language model, greedy.

    It sees the last `screenshots` distinct pictures that carry their bytes; where that is one, the actions with it;
    where there are none (or `screenshots` is 0, for a model without eyes) the actions and the text of the last page. A
    reply that holds no verdict gets one repair turn, and is `unparseable` then. What is too long for the model is asked
    again with half the pictures, then without, then with half the text, and so on.

    `criteria`: "opentable", a reservation by the four of Agent Q, 6.1, a success where all are met and else a failure;
    it always sees the actions, and the reason says of each criterion whether it is met. None: the task as a whole.
    """

    model: LanguageModel
    screenshots: int = SCREENSHOTS
    criteria: Criteria | None = None

    @property
    def name(self) -> str:
        """The model, how much it sees, the criteria where there are some, and the prompts' hash."""
        criteria = f", {self.criteria} criteria" if self.criteria else ""
        hashed = prompt_hash(OPENTABLE if self.criteria else JUDGE)[:8]
        return f"{self.model.name}, {self.screenshots} screenshots{criteria}, prompt {hashed}"

    async def judge(self, episode: Episode) -> Verdict:
        """ModelError when the endpoint gives no reply, ContextError when not even a short text fits."""
        try:
            read = _read_opentable if self.criteria else _read
            (outcome, reason), usage = await ask(self.model, self._prompts(episode), read, "judge")
        except ReplyError as error:
            outcome, reason, usage = "unparseable", str(error), error.usage
        return Verdict(reward=float(outcome == "success"), outcome=outcome, reason=reason, judge=self.name, usage=usage)

    async def _prompts(self, episode: Episode) -> Prompts:
        steps, final = episode.steps, episode.final or episode.steps[-1].observation
        last = steps[-1].decision.candidate.action if steps else None
        pictures, page = _pictures(episode, self.screenshots), final.text
        system, schema = ("judge_opentable_system", _OPENTABLE_SCHEMA) if self.criteria else ("judge_system", _SCHEMA)

        def prompt() -> Prompt:
            text = render(
                "judge_user",
                goal=episode.task.goal,
                answer=last.text if isinstance(last, Answer) else None,
                history=_done(episode) if self.criteria or len(pictures) < 2 else (),
                title=final.title,
                url=final.url,
                page=page,
                pictures=len(pictures),
            )
            # What He et al. 2024 ask of their judge, in our words, and two classes more.
            messages = user(text, pictures, system=render(system, pictures=len(pictures)))
            return Prompt(request=Request(messages=messages, schema=schema, name="verdict"))

        yield prompt()
        while pictures:
            pictures = pictures[len(pictures) - len(pictures) // 2 :]
            yield prompt()
        while len(page) // 2 >= SHORTEST:
            page = page[: len(page) // 2]
            yield prompt()


def _pictures(episode: Episode, most: int) -> tuple[Screenshot, ...]:
    """The last ones that carry their bytes, oldest first, each page's that did not change only once."""
    seen = [*(step.observation for step in episode.steps), *([episode.final] if episode.final else [])]
    found: list[Screenshot] = []
    for shot in (observation.screenshot for observation in seen):
        if shot is not None and shot.data and (not found or found[-1].sha256 != shot.sha256):
            found.append(shot)
    return tuple(found[-most:]) if most else ()


def _done(episode: Episode) -> list[str]:
    """The actions, a question with what its user replied."""
    lines = []
    for step, after in zip(
        episode.steps, (*(step.observation for step in episode.steps[1:]), episode.final), strict=True
    ):
        candidate = step.decision.candidate
        replied = after.notices if after and isinstance(candidate.action, AskUser) else ()
        lines.append(" ".join((candidate.label, *replied)))
    return lines


def _read(replies: Sequence[Reply], _: Picture | None) -> tuple[Outcome, str]:
    """Outcome and reason of a reply. ReplyError in words that help the model fix it."""
    data = json_of(replies[0])
    said = str(data.get("verdict", "")).strip().lower()
    if said not in DECIDED:
        raise ReplyError(f'"verdict" is {said!r}: it must be one of {", ".join(DECIDED)}')
    reason = data.get("reason")
    return said, " ".join(reason.split()) if isinstance(reason, str) else ""


def _read_opentable(replies: Sequence[Reply], _: Picture | None) -> tuple[Outcome, str]:
    """The same of a reply with a verdict on each criterion."""
    data, said, met = json_of(replies[0]), [], []
    for name in OPENTABLE_CRITERIA:
        one = data.get(name)
        if not isinstance(one, dict) or not isinstance(one.get("met"), bool):
            raise ReplyError(f'"{name}" must be an object with "reason" and with "met", true or false')
        met.append(one["met"])
        why = " ".join(str(one.get("reason", "")).split())
        said.append(f"{name.replace('_', ' ')} {'met' if met[-1] else 'not met'}" + (f" ({why})" if why else ""))
    return "success" if all(met) else "failure", "; ".join(said)
