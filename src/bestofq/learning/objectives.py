"""What tuning minimises: reinforced fine-tuning, and direct preference optimization of composite actions against
likelihoods stored when the actions were drawn (Agent Q, Eqs. 4 to 6); with the slopes and means of a step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor
from torch.nn import functional

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.shared_prefix import Branches
from bestofq.learning.tuning_batches import Item, Turns


def rft_loss(log_prob: Tensor) -> Tensor:
    """Loss of each turn [...], Agent Q Eq. 4 (3.2.1): -log π_θ(a|h), from log-likelihoods of whole composite actions of
    successful trajectories. Every token of a reply is learned alike (3.1), none of its prompt."""
    return -log_prob


def implicit_reward(log_prob: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """r(h, a) = β·log[π_θ(a|h) / π_ref(a|h)] [...], in nats. `reference`: the likelihood under the policy that drew the
    action, kept with it, so that no reference model is in memory (Agent Q, 3.2.2)."""
    return beta * (log_prob - reference)


def dpo_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Loss of each pair [P] by the implicit rewards [P] of its two members (Agent Q, 3.2.2).

    Eq. 5, at the level of a node (5.2):

        -log σ( β·log[π_θ(a_w|h) / π_ref(a_w|h)] - β·log[π_θ(a_l|h) / π_ref(a_l|h)] )

    Eq. 6, of two trajectories, has the sums of the rewards of their turns. Turns are not averaged, so long trajectories
    weigh more. A likelihood is that of a whole composite action, the sum over ALL its tokens (3.1, Eq. 1: plan,
    thought, command and explanation weigh alike).

    Deviations. Eq. 5 has a history for each member, h_w and h_l; at a node they are one, h. π_ref is the policy that
    drew the action, which in Algorithm 1 is the one each iteration begins with; pairs of older iterations keep theirs.
    """
    return -functional.logsigmoid(chosen - rejected)


PAIR_MEANS = (  # over the pairs of a step
    "loss",  # Eq. 5 or 6, nats
    "accuracy",  # share of pairs whose chosen member has the higher implicit reward
    "margin",  # implicit reward of the chosen member over the rejected one's
    "chosen_reward",  # β·log(π_θ / π_ref); far from 0 at step 1, the pairs are of another model
    "rejected_reward",
)


Terms = Callable[[Tensor], Tensor]
"""From the log-likelihoods [R] of the replies of some micro-batches, laid end to end, the sums [M] of which a step's
means are made. The first is the sum of the losses."""


@dataclass(frozen=True)
class Objective(Generic[Item]):
    """What is minimised: the mean over the items of a step, each of the weight `weight`."""

    items: str  # what they are, in words
    turns: Turns[Item]
    weight: Callable[[Item], int]
    terms: Callable[[Sequence[Item], Sequence[Branches], torch.device], Terms]
    means: Sequence[str]  # names of what `terms` gives, the loss first


def preferences(beta: float) -> Objective[PreferencePair]:
    """DPO (Agent Q, Eqs. 5 and 6): each pair weighs the same."""
    return Objective(
        items="preference pairs",
        turns=lambda pair: (*pair.chosen, *pair.rejected),
        weight=lambda pair: 1,
        terms=lambda pairs, nodes, device: _pair_terms(pairs, nodes, device, beta),
        means=PAIR_MEANS,
    )


def successes() -> Objective[Turn]:
    """RFT (Agent Q, Eq. 4). Deviation: a step's loss is the mean over its tokens, which only scales the rate."""
    return Objective(
        items="successful turns",
        turns=lambda turn: (turn,),
        weight=lambda turn: len(turn.reply_ids),
        terms=_turn_terms,
        means=["loss"],
    )


def slopes_of(terms: Terms, log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """d(sum of the losses) / d(log_probs) [R], and the sums [M]."""
    leaf = log_probs.detach().requires_grad_()
    sums = terms(leaf)
    (slopes,) = torch.autograd.grad(sums[0], leaf)
    return slopes, sums.detach()


def _places(turns: Iterable[Turn], nodes: Sequence[Branches], device: torch.device) -> Tensor:
    """[number of turns] int64: where in the row of replies each turn's own stands."""
    place: dict[tuple[object, object], int] = {}
    for index, key in enumerate((node.prompt, reply) for node in nodes for reply in node.replies):
        place.setdefault(key, index)
    return torch.tensor([place[turn.prompt_ids, turn.reply_ids] for turn in turns], dtype=torch.long, device=device)


def _turn_terms(turns: Sequence[Turn], nodes: Sequence[Branches], device: torch.device) -> Terms:
    """Eq. 4 over turns. The same turn may come several times."""
    at = _places(turns, nodes, device)  # [T]
    return lambda log_probs: rft_loss(log_probs[at]).sum()[None]


def _pair_terms(pairs: Sequence[PreferencePair], nodes: Sequence[Branches], device: torch.device, beta: float) -> Terms:
    """Eq. 6 over pairs, which is Eq. 5 where each side is one turn."""

    def laid_out(sides: Sequence[Sequence[Turn]]) -> tuple[Tensor, Tensor, Tensor]:
        """Of the turns [T] of one side of all pairs: their place, pair and stored likelihood."""
        turns = [turn for side in sides for turn in side]
        owner = [number for number, side in enumerate(sides) for _ in side]
        reference = torch.tensor([turn.log_prob for turn in turns], dtype=torch.float32, device=device)
        return _places(turns, nodes, device), torch.tensor(owner, dtype=torch.long, device=device), reference

    at_w, pair_w, ref_w = laid_out([pair.chosen for pair in pairs])
    at_l, pair_l, ref_l = laid_out([pair.rejected for pair in pairs])

    def terms(log_probs: Tensor) -> Tensor:
        zeros = log_probs.new_zeros(len(pairs))
        chosen = zeros.index_add(0, pair_w, implicit_reward(log_probs[at_w], ref_w, beta=beta))  # [P]
        rejected = zeros.index_add(0, pair_l, implicit_reward(log_probs[at_l], ref_l, beta=beta))  # [P]
        margins = chosen - rejected
        loss = dpo_loss(chosen, rejected)
        return torch.stack([loss.sum(), (margins > 0).sum(), margins.sum(), chosen.sum(), rejected.sum()])

    return terms
