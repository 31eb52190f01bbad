"""Each loss as a function of the log-likelihoods of the replies in a batch: its slopes by them, and a step's means."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.losses import implicit_reward, rft_loss, trajectory_dpo_loss
from bestofq.learning.shared_prefix import Branches
from bestofq.learning.tuning_batches import Item, Turns

Means = TypeVar("Means")


class PairMeans(NamedTuple):
    """Over the pairs of a step."""

    loss: float  # Eq. 5 or 6, nats
    accuracy: float  # share of pairs whose chosen member has the higher implicit reward
    margin: float  # implicit reward of the chosen member over the rejected one's
    chosen_reward: float  # β·log(π_θ / π_ref); far from 0 at step 1, the pairs are of another model
    rejected_reward: float


class TurnMeans(NamedTuple):
    """Over the tokens of a step's replies."""

    loss: float  # Eq. 4, nats a token


class Terms(Protocol):
    """The loss over the R replies of some micro-batches, laid end to end."""

    def slopes(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """d(sum of the losses) / d(log_probs) [R], and the sums [M] of which a step's means are made."""
        ...


@dataclass(frozen=True)
class Objective(Generic[Item, Means]):
    """What is minimised: the mean over the items of a step, each of the weight `weight`."""

    turns: Turns[Item]
    weight: Callable[[Item], int]
    terms: Callable[[Sequence[Item], Sequence[Branches], torch.device], Terms]
    means: Callable[[Sequence[float]], Means]


def preferences(beta: float) -> Objective[PreferencePair, PairMeans]:
    """DPO (Agent Q, Eqs. 5 and 6): each pair weighs the same."""
    return Objective(
        turns=lambda pair: (*pair.chosen, *pair.rejected),
        weight=lambda pair: 1,
        terms=lambda pairs, nodes, device: _PairTerms(pairs, nodes, device, beta),
        means=PairMeans._make,
    )


def successes() -> Objective[Turn, TurnMeans]:
    """RFT (Agent Q, Eq. 4). Deviation: a step's loss is the mean over its tokens, not the sum over a trajectory, which
    only scales the rate."""
    return Objective(
        turns=lambda turn: (turn,), weight=lambda turn: len(turn.reply_ids), terms=_TurnTerms, means=TurnMeans._make
    )


def _places(turns: Iterable[Turn], nodes: Sequence[Branches], device: torch.device) -> Tensor:
    """[number of turns] int64: where in the row of replies each turn's own stands."""
    place: dict[tuple[object, object], int] = {}
    for index, key in enumerate((node.prompt, reply) for node in nodes for reply in node.replies):
        place.setdefault(key, index)
    return torch.tensor([place[turn.prompt_ids, turn.reply_ids] for turn in turns], dtype=torch.long, device=device)


class _TurnTerms:
    """Eq. 4 over turns, of which the same may come several times."""

    def __init__(self, turns: Sequence[Turn], nodes: Sequence[Branches], device: torch.device) -> None:
        self._at = _places(turns, nodes, device)  # [T]

    def slopes(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        leaf = log_probs.detach().requires_grad_()
        loss = rft_loss(leaf[self._at]).sum()
        (slopes,) = torch.autograd.grad(loss, leaf)
        return slopes, loss.detach()[None]


class _PairTerms:
    """Eq. 6 over pairs, which is Eq. 5 where each side is one turn."""

    def __init__(
        self, pairs: Sequence[PreferencePair], nodes: Sequence[Branches], device: torch.device, beta: float
    ) -> None:
        self._pairs, self._beta = len(pairs), beta
        self._sides = []
        for side in ("chosen", "rejected"):
            turns = [(number, turn) for number, pair in enumerate(pairs) for turn in getattr(pair, side)]
            owner, reference = [number for number, _ in turns], [turn.log_prob for _, turn in turns]
            self._sides.append(
                (
                    _places((turn for _, turn in turns), nodes, device),
                    torch.tensor(owner, dtype=torch.long, device=device),
                    torch.tensor(reference, dtype=torch.float32, device=device),
                )
            )

    def slopes(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        leaf = log_probs.detach().requires_grad_()
        (at_w, pair_w, ref_w), (at_l, pair_l, ref_l) = self._sides
        loss = trajectory_dpo_loss(
            leaf[at_w], leaf[at_l], ref_w, ref_l, pair_w, pair_l, pairs=self._pairs, beta=self._beta
        )  # [P]
        (slopes,) = torch.autograd.grad(loss.sum(), leaf)
        values = log_probs.detach()
        zeros = values.new_zeros(self._pairs)
        chosen = zeros.index_add(0, pair_w, implicit_reward(values[at_w], ref_w, beta=self._beta))  # [P]
        rejected = zeros.index_add(0, pair_l, implicit_reward(values[at_l], ref_l, beta=self._beta))  # [P]
        margins = chosen - rejected
        sums = [loss.detach().sum(), (margins > 0).sum(), margins.sum(), chosen.sum(), rejected.sum()]
        return slopes, torch.stack(sums)
