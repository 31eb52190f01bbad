"""N candidates in one reply of a chat model (Best-of-Q, A.5 and Fig. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.candidates import candidates_schema, parse_candidates
from bestofq.agents.prompting import By, candidates_system, candidates_user
from bestofq.agents.usage import merge_usage
from bestofq.core.actions import Wait, action_text
from bestofq.core.decision import Candidate, Proposal, State, Usage
from bestofq.core.errors import ConfigError, ContextError, ReplyError
from bestofq.core.observation import Screenshot
from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, Message
from bestofq.models.images import Picture


@dataclass
class ChatProposer:
    """`Proposer` over a chat endpoint: one reply with all candidates, its first the greedy choice.

    A reply without a valid candidate gets one repair turn that says what was wrong, then a fresh sample; then a
    recorded no-op (a short wait) stands in, so that the episode goes on.

    A request longer than the model's context is never sent again as it was: its pictures are halved down to
    `models.images.FLOOR` pixels, then those of earlier steps go, the oldest first, then the older half of the history,
    again and again, then the picture of the current page (which stays where elements are points on it).
    """

    model: ChatModel
    by: By = "mark"
    screenshots: int = 1  # the last so many, the current one among them
    history: int = 30  # past actions shown, the last ones
    no_ops: int = field(default=0, init=False)

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop,
        ConfigError when elements are points and there is no picture."""
        usage: list[Usage] = []
        ask = await self._ask(state, n)
        problem = ""
        tail: tuple[Message, ...] = ()
        for attempt in ("ask", "repair", "fresh"):
            if attempt == "fresh":
                ask, tail = replace(ask, seed=ask.seed + 1), ()
            reply, ask = await self._fitting(ask, tail, usage)
            try:
                candidates = parse_candidates(reply.json(), state.observation, n, self.by, ask.picture)
            except ReplyError as error:
                problem, tail = str(error), reply.repair(str(error))
            else:
                return Proposal(candidates=tuple(candidates), usage=merge_usage(usage))
        self.no_ops += 1
        wait = Wait(seconds=1)
        idle = Candidate(action=wait, label=action_text(wait), thought=f"no valid reply: {problem}")
        return Proposal(candidates=(idle,), usage=merge_usage(usage))

    async def _ask(self, state: State, n: int) -> "_Ask":
        now = state.observation.screenshot if self.screenshots else None
        if now is not None and not now.data:
            now = None
        if now is None and self.by == "point":
            raise ConfigError(
                "elements named by points need pictures, and there are none: set suite.env=browser and "
                "suite.screenshots=true, or name them by marks"
            )
        earlier = tuple(shot for shot in state.screenshots if shot.data)[::-1][: max(0, self.screenshots - 1)][::-1]
        return _Ask(
            state=state,
            n=n,
            by=self.by,
            earlier=earlier if now else (),
            picture=await self.model.picture(now) if now else None,
            history=min(self.history, len(state.decisions)),
            seed=state.task.seed,
        )

    async def _fitting(self, ask: "_Ask", tail: Sequence[Message], usage: list[Usage]) -> tuple[ChatReply, "_Ask"]:
        """A reply, and the request in the length that fitted."""
        while True:
            try:
                reply = await self.model.reply(ask.request(tail))
            except ContextError:
                shorter = await ask.shorter(self.model)
                if shorter is None:
                    raise
                ask = shorter
            else:
                usage.append(reply.usage("proposer"))
                return reply, ask


@dataclass(frozen=True, kw_only=True)
class _Ask:
    """What one state is asked with, and how much of it."""

    state: State
    n: int
    by: By
    earlier: tuple[Screenshot, ...]  # of steps before, oldest first
    picture: Picture | None  # of the current page, as it is sent
    history: int  # past actions shown
    seed: int

    def request(self, tail: Sequence[Message]) -> ChatRequest:
        now = self.state.observation.screenshot if self.picture else None
        shots = (*self.earlier, *((now,) if now else ()))
        return ChatRequest(
            messages=(
                Message(role="system", text=candidates_system(self.n, self.by, self.picture)),
                Message(role="user", text=candidates_user(self.state, self.history, len(shots)), screenshots=shots),
                *tail,
            ),
            schema=candidates_schema(self.n, self.by),
            name="candidates",
            seed=self.seed,
            pixels=self.picture.limits.most if self.picture else None,
        )

    async def shorter(self, model: ChatModel) -> "_Ask | None":
        """The same with less, a rung down (see `ChatProposer`); None when nothing is left to drop."""
        now = self.state.observation.screenshot
        if self.picture is not None and now is not None and self.picture.half is not None:
            return replace(self, picture=await model.picture(now, self.picture.half))
        if self.earlier:
            return replace(self, earlier=self.earlier[1:])
        if self.history:
            return replace(self, history=self.history // 2)
        if self.picture is not None and self.by != "point":
            return replace(self, picture=None)
        return None
