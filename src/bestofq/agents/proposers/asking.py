"""Asking a chat model about a state: repair turns for what cannot be read, less of the state for what is too long."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bestofq.core.actions import Wait, action_text
from bestofq.core.decision import Candidate, Proposal, State, Usage
from bestofq.core.errors import ContextError, ReplyError
from bestofq.core.observation import Screenshot
from bestofq.core.usage import merge_usage
from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, JsonSchema, Message
from bestofq.models.images import Picture


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What one state is asked with, and how much of it."""

    state: State
    system: Callable[[Picture | None], str]
    user: Callable[[int, int], str]  # (past actions shown, pictures shown) → text
    history: int  # past actions shown
    seed: int
    earlier: tuple[Screenshot, ...] = ()  # of steps before, oldest first
    picture: Picture | None = None  # of the current page, as it is sent
    pointing: bool = False  # elements are points on the picture, which must stay
    schema: JsonSchema | None = None  # of the reply; None: free text
    name: str = "reply"  # of the schema
    max_tokens: int | None = None  # of the reply; None: the model's
    log_probs: bool = False  # wanted of the replies
    repair: str = "with JSON only"  # how to reply after one that could not be read

    @classmethod
    async def about(
        cls,
        state: State,
        model: ChatModel,
        *,
        screenshots: int,
        history: int,
        system: Callable[[Picture | None], str],
        user: Callable[[int, int], str],
    ) -> "Ask":
        """With the last so many screenshots, the current page's among them where it has one."""
        now = state.observation.screenshot if screenshots else None
        if now is not None and not now.data:
            now = None
        earlier = tuple(shot for shot in state.screenshots if shot.data)[::-1][: max(0, screenshots - 1)][::-1]
        return cls(
            state=state,
            system=system,
            user=user,
            history=min(history, len(state.decisions)),
            seed=state.step_seed,
            earlier=earlier if now else (),
            picture=await model.picture(now) if now else None,
        )

    def request(self, tail: Sequence[Message], temperature: float | None = None, n: int = 1) -> ChatRequest:
        now = self.state.observation.screenshot if self.picture else None
        shots = (*self.earlier, *((now,) if now else ()))
        return ChatRequest(
            messages=(
                Message(role="system", text=self.system(self.picture)),
                Message(role="user", text=self.user(self.history, len(shots)), screenshots=shots),
                *tail,
            ),
            schema=self.schema,
            name=self.name,
            seed=self.seed,
            temperature=temperature,
            max_tokens=self.max_tokens,
            n=n,
            log_probs=self.log_probs,
            pixels=self.picture.limits.most if self.picture else None,
        )

    async def shorter(self, model: ChatModel) -> "Ask | None":
        """The same with less, a rung down (see `Asking`); None when nothing is left to drop."""
        now = self.state.observation.screenshot
        if self.picture is not None and now is not None and self.picture.half is not None:
            return replace(self, picture=await model.picture(now, self.picture.half))
        if self.earlier:
            return replace(self, earlier=self.earlier[1:])
        if self.history:
            return replace(self, history=self.history // 2)
        if self.picture is not None and not self.pointing:
            return replace(self, picture=None)
        return None


Read = Callable[[Sequence[ChatReply], Picture | None], Sequence[Candidate]]
"""Replies, and the current page's picture as they saw it → candidates, one at least. ReplyError, in words that help the
model to mend it, where there is none."""


@dataclass
class Asking:
    """A proposal in the making.

    Replies without a valid candidate get one repair turn that says what was wrong, then a fresh sample; then a recorded
    no-op (a short wait) stands in with the last reply, so that the episode goes on.

    A request longer than the model's context is never sent again as it was: its pictures are halved down to
    `models.images.FLOOR` pixels, then those of earlier steps go, the oldest first, then the older half of the history,
    again and again, then the picture of the current page (which stays where elements are points on it).
    """

    model: ChatModel
    ask: Ask
    read: Read
    idle: bool = False  # the no-op stood in
    _usage: list[Usage] = field(default_factory=list)

    async def propose(self, *, samples: int | None = None) -> Proposal:
        """From one reply at the model's temperature, or from so many, the first of them greedy.

        ModelError when the endpoint gives none, ContextError when nothing is left to drop.
        """
        problem = reply = ""
        tail: tuple[Message, ...] = ()
        for attempt in ("ask", "repair", "fresh"):
            if attempt == "fresh":
                self.ask, tail = replace(self.ask, seed=self.ask.seed + 1), ()
            greedy = samples is not None and attempt == "ask"
            replies = [await self._fitting(tail, 0.0 if greedy else None)]
            while greedy and (missing := (samples or 1) - sum(len(reply.choices) for reply in replies)) > 0:
                replies.append(await self._fitting((), None, missing, len(replies)))
            try:
                candidates = self.read(replies, self.ask.picture)
            except ReplyError as error:
                problem, reply, tail = str(error), replies[0].text, replies[0].repair(str(error), self.ask.repair)
            else:
                return Proposal(candidates=tuple(candidates), usage=merge_usage(self._usage))
        self.idle = True
        wait = Wait(seconds=1)
        stands_in = Candidate(action=wait, label=action_text(wait), thought=f"no valid reply: {problem}", reply=reply)
        return Proposal(candidates=(stands_in,), usage=merge_usage(self._usage))

    async def _fitting(
        self, tail: Sequence[Message], temperature: float | None, n: int = 1, later: int = 0
    ) -> ChatReply:
        """The reply to as much of the request as fits, which is all that is asked from then on."""
        while True:
            try:
                asked = replace(self.ask, seed=self.ask.seed + later)
                reply = await self.model.reply(asked.request(tail, temperature, n))
            except ContextError:
                shorter = await self.ask.shorter(self.model)
                if shorter is None:
                    raise
                self.ask = shorter
            else:
                self._usage.append(reply.usage("proposer"))
                return reply
