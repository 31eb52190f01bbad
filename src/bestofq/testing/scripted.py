"""Models, proposers, scorers and judges with scripted behaviour, for tests and benchmarks without weights."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.commands import parse_reply
from bestofq.core.decision import Candidate, Episode, Outcome, Proposal, Scores, State, Verdict, distinct
from bestofq.core.errors import ReplyError
from bestofq.core.language import Generation, Reply, Request
from bestofq.core.usage import Usage

Replies = Sequence[str]  # replies to one state, the greedy one first


@dataclass(frozen=True)
class ScriptedProposer:
    """Replies from a function of (state, n), or from a list with one entry a step; invalid and repeated ones are
    dropped. It serves any number of episodes at once. `seconds`: the time a reply takes."""

    replies: Callable[[State, int], Replies] | Sequence[Replies]
    seconds: float = 0.0

    async def propose(self, state: State, n: int) -> Proposal:
        """ReplyError when the list has no entry for this step, or no reply is valid."""
        await asyncio.sleep(self.seconds)
        candidates: list[Candidate] = []
        problem, replies = "it is empty", self._script(state, n)[:n]
        for reply in replies:
            try:
                candidates.append(parse_reply(reply, state.observation))
            except ReplyError as error:
                problem = str(error)
        usage = (Usage(role="proposer", calls=1, seconds=self.seconds),)
        if not candidates:
            said = f"the script has no valid reply at step {len(state.decisions)}: {problem}"
            raise ReplyError(said, usage=usage, replies=replies)
        return Proposal(candidates=distinct(candidates), usage=usage)

    def _script(self, state: State, n: int) -> Replies:
        if callable(self.replies):
            return self.replies(state, n)
        step = len(state.decisions)
        return self.replies[step] if step < len(self.replies) else ()


@dataclass(frozen=True)
class ScriptedScorer:
    """Scores from a function of (state, candidates) → [N]; `seconds` is the time it takes."""

    values: Callable[[State, Sequence[Candidate]], Sequence[float]]
    seconds: float = 0.0

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        await asyncio.sleep(self.seconds)
        return Scores(values=tuple(self.values(state, candidates)), usage=(Usage(role="critic", calls=1),))


@dataclass(frozen=True)
class ScriptedJudge:
    """Outcomes from a function of the episode; `seconds` is the time a verdict takes."""

    outcomes: Callable[[Episode], Outcome]
    name: str = "scripted"
    seconds: float = 0.0

    async def judge(self, episode: Episode) -> Verdict:
        await asyncio.sleep(self.seconds)
        outcome = self.outcomes(episode)
        usage = Usage(role="judge", calls=1, seconds=self.seconds)
        return Verdict(reward=float(outcome == "success"), outcome=outcome, judge=self.name, usage=(usage,))


@dataclass(frozen=True)
class ScriptedModel:
    """A `LanguageModel` by a function of the request. A reply's tokens are its bytes; longer ones are less likely."""

    replies: Callable[[Request], Sequence[str]]
    name: str = "scripted"

    async def generate(self, request: Request) -> Generation:
        texts = self.replies(request)[: request.n]
        replies = tuple(Reply(text, -len(text) / 100, tuple(text.encode())) for text in texts)
        read, written = len(request.prompt.encode()), sum(reply.tokens for reply in replies)
        return Generation(replies, Usage(role=request.role, tokens_in=read, tokens_out=written, calls=1))
