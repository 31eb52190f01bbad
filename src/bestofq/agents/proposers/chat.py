"""N candidates in one reply of a chat model (Best-of-Q, A.5 and Fig. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.candidates import candidates_schema, parse_candidates
from bestofq.agents.prompting import By, candidates_system, candidates_user
from bestofq.agents.usage import merge_usage
from bestofq.core.actions import Wait, action_text
from bestofq.core.decision import Candidate, Proposal, State, Usage
from bestofq.core.errors import ContextError, ReplyError
from bestofq.core.observation import Screenshot
from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, Message


@dataclass
class ChatProposer:
    """`Proposer` over a chat endpoint: one reply with all candidates, its first the greedy choice.

    A reply without a valid candidate gets one repair turn that says what was wrong, then a fresh sample; then a
    recorded no-op (a short wait) stands in, so that the episode goes on. A request longer than the model's context is
    sent again with fewer pictures, then with half the history, and so on.
    """

    model: ChatModel
    by: By = "mark"
    screenshots: int = 1  # the last so many, the current one among them
    history: int = 30  # past actions shown, the last ones
    no_ops: int = field(default=0, init=False)

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop."""
        usage: list[Usage] = []
        ask = _Ask(
            state=state,
            n=n,
            by=self.by,
            screenshots=self.screenshots,
            history=self.history,
            seed=state.task.seed,
        )
        problem = ""
        tail: tuple[Message, ...] = ()
        for attempt in ("ask", "repair", "fresh"):
            if attempt == "fresh":
                ask, tail = replace(ask, seed=ask.seed + 1), ()
            reply, ask = await self._fitting(ask, tail, usage)
            try:
                candidates = parse_candidates(reply.json(), state.observation, n, self.by)
            except ReplyError as error:
                problem = str(error)
                tail = (
                    Message(role="assistant", text=reply.text or "(nothing)"),
                    Message(role="user", text=f"That cannot be used: {problem}. Reply again, with JSON only."),
                )
            else:
                return Proposal(candidates=tuple(candidates), usage=merge_usage(usage))
        self.no_ops += 1
        wait = Wait(seconds=1)
        idle = Candidate(action=wait, label=action_text(wait), thought=f"no valid reply: {problem}")
        return Proposal(candidates=(idle,), usage=merge_usage(usage))

    async def _fitting(self, ask: "_Ask", tail: Sequence[Message], usage: list[Usage]) -> tuple[ChatReply, "_Ask"]:
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
                usage.append(reply.usage("proposer"))
                return reply, ask


@dataclass(frozen=True, kw_only=True)
class _Ask:
    """What one state is asked with, and how much of it."""

    state: State
    n: int
    by: By
    screenshots: int
    history: int
    seed: int

    def request(self, tail: Sequence[Message]) -> ChatRequest:
        return ChatRequest(
            messages=(
                Message(role="system", text=candidates_system(self.n, self.by)),
                Message(role="user", text=candidates_user(self.state, self.history), screenshots=self._pictures()),
                *tail,
            ),
            schema=candidates_schema(self.n, self.by),
            name="candidates",
            seed=self.seed,
        )

    def _pictures(self) -> tuple[Screenshot, ...]:
        now = self.state.observation.screenshot
        shown = (*self.state.screenshots, *((now,) if now else ()))
        return tuple(shot for shot in shown if shot.data)[-self.screenshots :] if self.screenshots else ()

    def shorter(self) -> "_Ask | None":
        """The same with less: fewer pictures first, then half the history; None when nothing is left to drop."""
        if pictures := len(self._pictures()):
            return replace(self, screenshots=pictures - 1)
        if past := min(self.history, len(self.state.decisions)):
            return replace(self, history=past // 2)
        return None
