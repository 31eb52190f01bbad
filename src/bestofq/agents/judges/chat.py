"""A chat model as the judge, in WebVoyager's setting: task, answer and last screenshots (He et al. 2024); or in Agent
Q's: the last screenshot alone, with what was done (Fig. 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bestofq.agents.prompting import JUDGE, judge_system, judge_user, prompt_hash
from bestofq.core.actions import Answer, AskUser
from bestofq.core.decision import TOLD, Episode, Outcome, Usage, Verdict
from bestofq.core.errors import ContextError, ReplyError
from bestofq.core.observation import Observation, Screenshot
from bestofq.core.usage import merge_usage
from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, Message

SCREENSHOTS = 15  # `max_attached_imgs` in the run_eval.sh of WebVoyager
SHORTEST = 500  # characters of a page below which a judge is not asked
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(TOLD)}},
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """`Judge` over a chat endpoint, at temperature 0.

    It sees the last `screenshots` distinct pictures that carry their bytes; where that is one, the actions with it;
    where there are none (or `screenshots` is 0, for a model without eyes) the actions and the text of the last page. A
    reply that holds no verdict gets one repair turn, and is `unparseable` then. What is too long for the model is asked
    again with half the pictures, then without, then with half the text, and so on.
    """

    model: ChatModel
    screenshots: int = SCREENSHOTS

    @property
    def name(self) -> str:
        """The model, how much it sees, and the prompts' hash."""
        return f"{self.model.name}, {self.screenshots} screenshots, prompt {prompt_hash(JUDGE)[:8]}"

    async def judge(self, episode: Episode) -> Verdict:
        """ModelError when the endpoint gives no reply, ContextError when not even a short text fits."""
        usage: list[Usage] = []
        ask = _Ask(episode=episode, pictures=_pictures(episode, self.screenshots), characters=None)
        reply, ask = await self._fitting(ask, (), usage)
        try:
            outcome, reason = _read(reply)
        except ReplyError as error:
            tail = (
                Message(role="assistant", text=reply.text or "(nothing)"),
                Message(role="user", text=f"That cannot be used: {error}. Reply again, with JSON only."),
            )
            reply, ask = await self._fitting(ask, tail, usage)
            try:
                outcome, reason = _read(reply)
            except ReplyError as again:
                outcome, reason = "unparseable", str(again)
        return Verdict(
            reward=float(outcome == "success"),
            outcome=outcome,
            reason=reason,
            judge=self.name,
            usage=merge_usage(usage),
        )

    async def _fitting(self, ask: "_Ask", tail: tuple[Message, ...], usage: list[Usage]) -> tuple[ChatReply, "_Ask"]:
        """A reply, and the request in the length that fitted."""
        while True:
            try:
                reply = await self.model.reply(ask.request(tail))
            except ContextError:
                shorter = ask.shorter()
                if shorter is None:
                    raise
                ask = shorter
            else:
                usage.append(reply.usage("judge"))
                return reply, ask


@dataclass(frozen=True, kw_only=True)
class _Ask:
    """What is asked of an episode, and how much of it is shown."""

    episode: Episode
    pictures: tuple[Screenshot, ...]
    characters: int | None  # of the page's text; None: all

    def request(self, tail: tuple[Message, ...]) -> ChatRequest:
        steps, final = self.episode.steps, self._final()
        last = steps[-1].decision.candidate.action if steps else None
        text = judge_user(
            self.episode.task.goal,
            last.text if isinstance(last, Answer) else None,
            _done(self.episode) if len(self.pictures) < 2 else (),
            final.model_copy(update={"text": final.text[: self.characters]}),
            len(self.pictures),
        )
        return ChatRequest(
            messages=(
                Message(role="system", text=judge_system(pictures=len(self.pictures))),
                Message(role="user", text=text, screenshots=self.pictures),
                *tail,
            ),
            schema=_SCHEMA,
            name="verdict",
            temperature=0.0,
        )

    def shorter(self) -> "_Ask | None":
        """The same with less; None when nothing is left to drop."""
        if self.pictures:
            return replace(self, pictures=self.pictures[len(self.pictures) - len(self.pictures) // 2 :])
        shown = len(self._final().text[: self.characters])
        return replace(self, characters=shown // 2) if shown // 2 >= SHORTEST else None

    def _final(self) -> Observation:
        return self.episode.final or self.episode.steps[-1].observation


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


def _read(reply: ChatReply) -> tuple[Outcome, str]:
    """Outcome and reason of a reply. ReplyError in words that help the model mend it."""
    data = reply.json()
    said = str(data.get("verdict", "")).strip().lower() if isinstance(data, dict) else ""
    if said not in TOLD:
        raise ReplyError(f'"verdict" is {said!r}: it must be one of {", ".join(TOLD)}')
    reason = data.get("reason")
    return said, " ".join(reason.split()) if isinstance(reason, str) else ""
