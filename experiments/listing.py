"""Candidates that one reply lists, instead of the first reply and other draws.

Best-of-Q's model is asked for several strategically different actions at once (Fig. 7), and a random one of them
succeeds about as often as its single reply (Table 2). A pocket model that is taught such replies, in random order
(`demonstrations.listing_share`), offers candidates of which none comes first for being likeliest.

bestofq eval --set proposer=experiments.listing:make_proposer …
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.commands import parse_reply
from bestofq.agents.prompting import propose_prompt
from bestofq.config.models import Models
from bestofq.core.decision import Candidate, Proposal, State, distinct
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.language import Request, user
from bestofq.core.observation import Observation
from bestofq.core.protocols import LanguageModel

LISTED = 3  # actions a taught reply lists, as many as the paper's N
REPLIES = 4  # drawn, of which the next is read where one lists no action


def listing_prompt(state: State) -> str:
    """Asks for one thought, and after it an action a line."""
    return f"{propose_prompt(state).removesuffix(':')} {LISTED}:"


def listed(reply: str, seen: Observation) -> list[Candidate]:
    """The reply's distinct actions, without the lines that are none on this page."""
    thought, *commands = reply.strip().split("\n")
    found = []
    for command in commands:
        try:
            found.append(parse_reply(f"{thought}\n{command}", seen))
        except ReplyError:
            continue
    return [*distinct(found)]


@dataclass(frozen=True)
class ListingProposer:
    """`Proposer`: at most `LISTED` candidates."""

    model: LanguageModel
    temperature: float
    max_tokens: int

    async def propose(self, state: State, n: int) -> Proposal:
        """ReplyError where no reply lists an action."""
        generation = await self.model.generate(
            Request(
                messages=user(listing_prompt(state)),
                n=REPLIES,
                greedy=False,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=state.step_seed,
            )
        )
        lists = (listed(reply.text, state.observation) for reply in generation.replies)
        candidates: Sequence[Candidate] = next(filter(None, lists), [])
        if not candidates:
            raise ReplyError(f"{self.model.name} lists no action", usage=(generation.usage,))
        return Proposal(candidates=tuple(candidates[:n]), usage=(generation.usage,))


def make_proposer(models: Models) -> ListingProposer:
    """ConfigError where the model is not asked in short prompts."""
    if models.prompted is None:
        raise ConfigError("the listing proposer asks a pocket model: leave chat out, and set model.path to one")
    own = models.settings.model
    return ListingProposer(models.prompted, own.temperature, LISTED * own.most_tokens)
