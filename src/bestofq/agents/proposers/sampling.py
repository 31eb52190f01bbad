"""Candidates drawn one by one from a model: the greedy reply first, then distinct samples."""

from dataclasses import KW_ONLY, dataclass

from bestofq.agents.dialects.commands import COMMANDS
from bestofq.agents.dialects.dialect import Dialect
from bestofq.core.decision import Candidate, Proposal, State, distinct
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request, user
from bestofq.core.protocols import LanguageModel


@dataclass(frozen=True)
class SamplingProposer:
    """`Proposer` over a model that is asked in its own prompt, here or behind an endpoint.

    The model writes `1 + (n - 1) · samples_per_candidate` replies over one key-value cache. Replies that are invalid or
    repeat an action are dropped, so fewer than n candidates can remain where the model is sure. The draws come from
    `State.step_seed`: the same prompt and seed give the same candidates, whatever else runs. With `beams` the
    candidates are the likeliest replies of a beam search so wide instead, and nothing is drawn.
    """

    model: LanguageModel
    _: KW_ONLY
    temperature: float = 1.0
    samples_per_candidate: int = 4
    max_new_tokens: int = 40
    dialect: Dialect = COMMANDS
    beams: int = 0

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ReplyError, with what was used and replied, when no draw is a valid action."""
        replies = 1 if self.beams else 1 + (n - 1) * self.samples_per_candidate
        return await self._drawn(state, n, replies=replies, greedy=True)

    async def sample(self, state: State) -> Proposal:
        """The first valid of `samples_per_candidate` draws, none of them greedy. ReplyError as `propose`."""
        return await self._drawn(state, 1, replies=self.samples_per_candidate, greedy=False)

    async def _drawn(self, state: State, n: int, *, replies: int, greedy: bool) -> Proposal:
        generation = await self.model.generate(
            Request(
                messages=user(self.dialect.prompt(state)),
                n=replies,
                greedy=greedy,
                beams=self.beams,
                temperature=self.temperature,
                max_tokens=self.max_new_tokens,
                seed=state.step_seed,
                log_probs=True,
            )
        )
        usage = generation.usage("proposer")
        candidates: list[Candidate] = []
        problem = ""
        for reply in generation.replies:
            try:
                candidate = self.dialect.parse(reply.text, state.observation, reply.log_prob)
            except ReplyError as error:
                problem = str(error)
                continue
            if self.dialect.keeps_ids and reply.ids:  # what is learned from needs them as they were drawn
                told = {"reply_ids": reply.ids, "prompt_hash": reply.prompt_hash}
                candidate = candidate.model_copy(update=told)
            candidates.append(candidate)
        if not candidates:
            raise ReplyError(
                f"none of {len(generation.replies)} replies of {self.model.name} is an action: {problem}",
                usage=(usage,),
                replies=[reply.text for reply in generation.replies],
            )
        return Proposal(candidates=distinct(candidates)[:n], usage=(usage,))
