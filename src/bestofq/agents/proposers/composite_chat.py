"""Agent Q's composite action by a chat endpoint (3.1, Fig. 2): K replies, each a whole action."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.composite import composite_system, composite_user, parse_composite
from bestofq.agents.proposers.asking import Ask, Asking
from bestofq.core.decision import Candidate, Proposal, State, distinct
from bestofq.core.errors import ReplyError
from bestofq.models.chat import ChatModel, ChatReply, Choice
from bestofq.models.images import Picture


@dataclass
class CompositeChatProposer:
    """`Proposer` over a chat endpoint that is asked for one composite action, K times: greedily first, then at its
    temperature. Repeated actions are dropped, so that fewer than K can remain.

    What cannot be read and what is too long is dealt with as `Asking` says. The history is all composite actions so far
    (3.1); pictures of pages are shown beside the text where `screenshots` are taken. With `log_probs` a candidate has
    the log-probability of its reply, where the endpoint gives it.
    """

    model: ChatModel
    screenshots: int = 1  # the last so many, the current one among them
    history: int = 30  # past actions shown, the last ones
    log_probs: bool = False
    no_ops: int = field(default=0, init=False)

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop."""
        return await self._asked(state, n, greedy_first=True)

    async def sample(self, state: State) -> Proposal:
        """One candidate, drawn at the model's temperature. Errors as `propose`."""
        return await self._asked(state, 1, greedy_first=False)

    async def _asked(self, state: State, n: int, *, greedy_first: bool) -> Proposal:
        def read(replies: Sequence[ChatReply], _: Picture | None) -> Sequence[Candidate]:
            return _candidates([choice for reply in replies for choice in reply.choices], state)[:n]

        ask = await Ask.about(
            state,
            self.model,
            screenshots=self.screenshots,
            history=self.history,
            system=lambda _: composite_system(first=not state.decisions),
            user=lambda history, pictures: composite_user(state, history, pictures),
        )
        repair = "in the form that was asked for, with nothing around it"
        asking = Asking(self.model, replace(ask, repair=repair, log_probs=self.log_probs), read)
        proposal = await asking.propose(samples=n if greedy_first else None)
        self.no_ops += asking.idle
        return proposal


def _candidates(replies: Sequence[Choice], state: State) -> Sequence[Candidate]:
    """The valid candidates with distinct actions. ReplyError with the first complaint when there is none."""
    found: list[Candidate] = []
    complaints = []
    for reply in replies:
        try:
            candidate = parse_composite(_bare(reply.text), state.observation, reply.log_prob)
        except ReplyError as error:
            complaints.append(str(error))
        else:
            found.append(candidate)
    if not found:
        raise ReplyError(complaints[0] if complaints else "the reply was empty")
    return distinct(found)


def _bare(reply: str) -> str:
    """Without the empty lines and the fence that chat models put around and between what they are asked for."""
    return "\n".join(line.strip() for line in reply.splitlines() if line.strip() and not line.startswith("```"))
