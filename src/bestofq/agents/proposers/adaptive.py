"""Q says how many candidates are worth their tokens: N where it is sure, more where all that is offered seems bad.

Ours, not in the papers. What is compared is the advantage of the best candidate, max Q(s, a) - V(s): V(s) is what the
page is worth by what was done on such pages, so that a page without hope is no reason to ask again.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from bestofq.core.actions import identity
from bestofq.core.counted import attach_usage
from bestofq.core.decision import Candidate, Proposal, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.protocols import Proposer, Scorer
from bestofq.core.usage import Usage, merge_usage


@dataclass(frozen=True)
class ProposalRound:
    """A question to the proposer."""

    n: int
    state: State  # its seed is the round's
    enough: float = float("inf")  # the advantage from which on nothing more is asked


@dataclass(frozen=True)
class AdaptiveProposer:
    """`Proposer` that asks another one in rounds, and a scorer between them; both are counted, each in its role.

    With `enough` the greedy candidate is tried alone. Where its advantage is so much or more, nothing else is offered;
    else n candidates are asked for, with the draws of an agent that asks for n at once. While the best advantage is
    below `low`, n more are drawn, `again` times at most: up to n · (1 + again) candidates are offered. V(s) is 0 for a
    scorer that has none. A round whose replies are no actions brings nothing; where all are so, it is a ReplyError,
    or the last round's no-op.
    """

    proposer: Proposer
    scorer: Scorer
    _: KW_ONLY
    enough: float | None = None  # None: n at once
    low: float = 0.0
    again: int = 0

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates, or more where it asks again; the proposer's greedy one first. Errors as both's."""
        found: tuple[Candidate, ...] = ()
        used: list[Usage] = []
        rounds = list(self._rounds(state, n))
        with attach_usage(used):
            for number, asked in enumerate(rounds, 1):
                try:
                    proposal = await self.proposer.propose(asked.state, asked.n)
                except ReplyError as error:
                    if number == len(rounds) and not found:
                        raise
                    used += error.usage
                    continue
                used += proposal.usage
                if proposal.failed and (found or number < len(rounds)):
                    continue
                found = _join_candidates(found, proposal.candidates)
                if number < len(rounds):  # the agent scores what is offered in the end
                    scores = await self.scorer.score(state, found)
                    used += scores.usage
                    if advantage(scores) >= asked.enough:
                        break
        return Proposal(candidates=found, usage=merge_usage(used))

    def _rounds(self, state: State, n: int) -> Iterator[ProposalRound]:
        if self.enough is not None and n > 1:
            yield ProposalRound(1, state, self.enough)
        for draw in range(1 + self.again):
            yield ProposalRound(n, state.model_copy(update={"seed": state.seed + draw}), self.low)


def advantage(scores: Scores) -> float:
    """max Q(s, a) - V(s)."""
    return max(scores.values) - (scores.state_value or 0.0)


def _join_candidates(found: tuple[Candidate, ...], more: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """All distinct actions, each as it was first offered."""
    known = {identity(candidate.action) for candidate in found}
    return (*found, *(candidate for candidate in more if identity(candidate.action) not in known))
