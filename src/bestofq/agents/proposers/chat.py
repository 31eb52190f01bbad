"""N candidates in one reply of a chat model (Best-of-Q, A.5 and Fig. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.candidates import candidates_schema, parse_candidates
from bestofq.agents.prompting import By, candidates_system, candidates_user
from bestofq.agents.proposers.asking import Ask, Asking
from bestofq.core.decision import Candidate, Proposal, State, distinct
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.observation import Observation
from bestofq.models.chat import ChatModel, ChatReply
from bestofq.models.images import Picture


@dataclass
class ChatProposer:
    """`Proposer` over a chat endpoint: one reply with all candidates, its first the greedy choice. What cannot be read
    and what is too long is dealt with as `Asking` says; `no_ops` counts the steps that it could not save.

    A candidate of such a list has no log-probability: each depends on those written before it, so that no sum over
    tokens of the reply is log π(a|s). With `log_probs` each candidate is therefore a reply of its own, the first one
    greedy, the others at the model's temperature, repeated actions dropped. Its log-probability is that of its reply,
    thought and note included, where the endpoint gives it.
    """

    model: ChatModel
    by: By = "mark"
    screenshots: int = 1  # the last so many, the current one among them
    history: int = 30  # past actions shown, the last ones
    log_probs: bool = False
    no_ops: int = field(default=0, init=False)

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop,
        ConfigError when elements are points and there is no picture."""

        def read(replies: Sequence[ChatReply], picture: Picture | None) -> Sequence[Candidate]:
            if self.log_probs:
                return self._each(replies, state.observation, picture)[:n]
            return parse_candidates(replies[0].json(), state.observation, n, self.by, picture)

        asking = Asking(self.model, await self._ask(state, 1 if self.log_probs else n), read)
        proposal = await asking.propose(samples=n if self.log_probs else None)
        self.no_ops += asking.idle
        return proposal

    async def _ask(self, state: State, n: int) -> Ask:
        ask = await Ask.about(
            state,
            self.model,
            screenshots=self.screenshots,
            history=self.history,
            system=lambda picture: candidates_system(n, self.by, picture),
            user=lambda history, pictures: candidates_user(state, history, pictures),
        )
        if ask.picture is None and self.by == "point":
            raise ConfigError(
                "elements named by points need pictures, and there are none: set suite.env=browser and "
                "suite.screenshots=true, or name them by marks"
            )
        return replace(
            ask,
            schema=candidates_schema(n, self.by),
            name="candidates",
            pointing=self.by == "point",
            log_probs=self.log_probs,
        )

    def _each(
        self, replies: Sequence[ChatReply], observation: Observation, picture: Picture | None
    ) -> Sequence[Candidate]:
        """The valid candidates with distinct actions, one of each reply. ReplyError with the first complaint when there
        is none."""
        found: list[Candidate] = []
        complaints = []
        singles = [replace(r, text=c.text, finish=c.finish, choices=(c,)) for r in replies for c in r.choices]
        for reply in singles:
            try:
                candidate, *more = parse_candidates(reply.json(), observation, 2, self.by, picture)
                if more:
                    raise ReplyError("expected one candidate, not several")
            except ReplyError as error:
                complaints.append(str(error))
            else:
                found.append(candidate.model_copy(update={"log_prob": reply.choices[0].log_prob}))
        if not found:
            raise ReplyError(complaints[0])
        return distinct(found)
