"""Candidates from a chat model: N in one reply (Best-of-Q, A.5 and Fig. 7), or one in each (Agent Q, 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bestofq.agents.dialects.dialect import ChatDialect
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.structured_output import ask, state_prompts
from bestofq.core.actions import Wait, action_text
from bestofq.core.decision import Candidate, Proposal, State, distinct
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request
from bestofq.core.picture import Picture
from bestofq.core.protocols import VisionModel

_JSON = JsonDialect()


@dataclass(frozen=True)
class ChatProposer:
    """`Proposer` over a model that is asked with instructions, behind an endpoint or here.

    In the JSON dialect one reply holds all candidates, its first the greedy choice. Such candidates have no
    log-probability: each depends on those written before it, so that no sum over tokens of the reply is log π(a|s).
    With `log_probs`, and in the composite dialect always, each candidate is therefore a reply of its own, the first one
    greedy, the others at the model's temperature, repeated actions dropped; with `votes` too, so that there are some.
    With `log_probs` its log-probability is that of its reply, thought and note included, where the endpoint gives it.

    Replies without a valid candidate get one repair turn, then a fresh sample; then a recorded no-op (a short wait)
    stands in with the last reply, so that the episode continues.
    """

    model: VisionModel
    dialect: ChatDialect = _JSON
    screenshots: int = 1  # the last so many, the current one among them
    log_probs: bool = False
    votes: bool = False
    temperature: float | None = None  # None: the endpoint's own
    max_tokens: int | None = None

    @property
    def _single(self) -> bool:
        return self.log_probs or self.votes or self.dialect.single

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop,
        ConfigError when elements are points and there is no picture."""
        return await self._generate(state, n, replies=n if self._single else None)

    async def sample(self, state: State) -> Proposal:
        """One candidate, drawn at the model's temperature. Errors as `propose`."""
        return await self._generate(state, 1, replies=None)

    async def _generate(self, state: State, n: int, *, replies: int | None) -> Proposal:
        def read(replies: Sequence[Reply], picture: Picture | None) -> Sequence[Candidate]:
            if self._single:
                return self._each(replies, state, picture)[:n]
            return self.dialect.read(replies[0], state.observation, n, picture)

        dialect, most = self.dialect, 1 if self._single else n
        prompts = state_prompts(
            self.model,
            state,
            Request(
                messages=(),
                greedy=False,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                schema=dialect.schema(most),
                name="candidates",
                log_probs=self.log_probs,
            ),
            system=lambda picture: dialect.system(state, most, picture),
            text=partial(dialect.user, state),
            screenshots=self.screenshots,
            pointing=dialect.pointing,
        )
        try:
            candidates, usage = await ask(
                self.model, prompts, read, "proposer", attempts=3, n=replies, repair=dialect.repair
            )
        except ReplyError as error:
            wait, thought = Wait(seconds=1), f"no valid reply: {error}"
            no_op = Candidate(action=wait, label=action_text(wait), thought=thought, reply=error.replies[-1])
            return Proposal(candidates=(no_op,), usage=error.usage, failed=True)
        return Proposal(candidates=tuple(candidates), usage=usage)

    def _each(self, replies: Sequence[Reply], state: State, picture: Picture | None) -> Sequence[Candidate]:
        """The valid candidates with distinct actions, one a reply. ReplyError with the first complaint without any."""
        found: list[Candidate] = []
        complaints = []
        for reply in replies:
            try:
                candidate, *more = self.dialect.read(reply, state.observation, 2, picture)
                if more:
                    raise ReplyError("expected one candidate, not several")
            except ReplyError as error:
                complaints.append(str(error))
            else:
                ids = reply.ids if self.dialect.single and reply.ids else None  # a policy is tuned on them
                told = {"log_prob": reply.log_prob, "reply_ids": ids, "prompt_hash": ids and reply.prompt_hash}
                found.append(candidate.model_copy(update=told))
        if not found:
            raise ReplyError(complaints[0])
        return distinct(found)
