"""A chat model as the judge, in WebVoyager's setting: task, answer and last screenshots (He et al. 2024); or in Agent
Q's: the last screenshot alone, with what was done (Fig. 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import JUDGE, SCREENSHOTS, prompt_hash, render
from bestofq.agents.structured_output import Prompt, Prompts, ask
from bestofq.core.actions import Answer, AskUser
from bestofq.core.decision import DECIDED, Episode, Outcome, Verdict
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel

SHORTEST = 500  # characters of a page below which a judge is not asked
_SCHEMA = object_schema({"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(DECIDED)}})


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """`Judge` over a language model, greedy.

    It sees the last `screenshots` distinct pictures that carry their bytes; where that is one, the actions with it;
    where there are none (or `screenshots` is 0, for a model without eyes) the actions and the text of the last page. A
    reply that holds no verdict gets one repair turn, and is `unparseable` then. What is too long for the model is asked
    again with half the pictures, then without, then with half the text, and so on.
    """

    model: LanguageModel
    screenshots: int = SCREENSHOTS

    @property
    def name(self) -> str:
        """The model, how much it sees, and the prompts' hash."""
        return f"{self.model.name}, {self.screenshots} screenshots, prompt {prompt_hash(JUDGE)[:8]}"

    async def judge(self, episode: Episode) -> Verdict:
        """ModelError when the endpoint gives no reply, ContextError when not even a short text fits."""
        try:
            (outcome, reason), usage = await ask(self.model, self._prompts(episode), _read, "judge")
        except ReplyError as error:
            outcome, reason, usage = "unparseable", str(error), error.usage
        return Verdict(reward=float(outcome == "success"), outcome=outcome, reason=reason, judge=self.name, usage=usage)

    async def _prompts(self, episode: Episode) -> Prompts:
        steps, final = episode.steps, episode.final or episode.steps[-1].observation
        last = steps[-1].decision.candidate.action if steps else None
        pictures, page = _pictures(episode, self.screenshots), final.text

        def prompt() -> Prompt:
            text = render(
                "judge_user",
                goal=episode.task.goal,
                answer=last.text if isinstance(last, Answer) else None,
                history=_done(episode) if len(pictures) < 2 else (),
                title=final.title,
                url=final.url,
                page=page,
                pictures=len(pictures),
            )
            # What He et al. 2024 ask of their judge, in our words, and two classes more.
            messages = user(text, pictures, system=render("judge_system", pictures=len(pictures)))
            return Prompt(request=Request(messages=messages, schema=_SCHEMA, name="verdict"))

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
    said = str(data.get("verdict", "")).strip().lower() if isinstance(data, dict) else ""
    if said not in DECIDED:
        raise ReplyError(f'"verdict" is {said!r}: it must be one of {", ".join(DECIDED)}')
    reason = data.get("reason")
    return said, " ".join(reason.split()) if isinstance(reason, str) else ""
