"""Preference pairs as batches: pairs of one node together, dealt to processes, in micro-batches of so many tokens."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from bestofq.core.preferences import PreferencePair
from bestofq.learning.distributed import SOLO, Group
from bestofq.learning.dpo import implicit_reward, trajectory_dpo_loss
from bestofq.learning.shared_prefix import Branches

Tokens = tuple[int, ...]
Unit = tuple[PreferencePair, ...]  # pairs that stay together: all of one node, or one of trajectories
T = TypeVar("T")


def units(pairs: Iterable[PreferencePair]) -> list[Unit]:
    """Pairs by their node, in the order in which each unit's first pair comes."""
    together: dict[object, list[PreferencePair]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        prompts = {turn.prompt_ids for turn in (*pair.chosen, *pair.rejected)}
        together[prompts.pop() if len(prompts) == 1 else index].append(pair)
    return [tuple(some) for some in together.values()]


def own_tokens(pairs: Iterable[PreferencePair]) -> int:
    """Prompts and replies of all their turns, whatever is shared."""
    turns = (turn for pair in pairs for turn in (*pair.chosen, *pair.rejected))
    return sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in turns)


def nodes_of(pairs: Iterable[PreferencePair]) -> tuple[Branches, ...]:
    """Each prompt once, with each of its replies once."""
    replies: dict[Tokens, dict[Tokens, None]] = defaultdict(dict)
    for pair in pairs:
        for turn in (*pair.chosen, *pair.rejected):
            replies[turn.prompt_ids][turn.reply_ids] = None
    return tuple(Branches(prompt, tuple(some)) for prompt, some in replies.items())


class Outcome(NamedTuple):
    """Of P pairs: their losses, and the implicit rewards β·log(π_θ / π_ref), all [P], without gradient."""

    loss: Tensor
    chosen: Tensor
    rejected: Tensor


class Terms:
    """Eq. 6 over the R replies of some micro-batches, laid end to end."""

    def __init__(self, pairs: Sequence[PreferencePair], nodes: Sequence[Branches], device: torch.device) -> None:
        place: dict[tuple[object, object], int] = {}
        for index, key in enumerate((node.prompt, reply) for node in nodes for reply in node.replies):
            place.setdefault(key, index)
        self.pairs = len(pairs)
        self._sides = []
        for side in ("chosen", "rejected"):
            turns = [(number, turn) for number, pair in enumerate(pairs) for turn in getattr(pair, side)]
            at = [place[turn.prompt_ids, turn.reply_ids] for _, turn in turns]
            owner, reference = [number for number, _ in turns], [turn.log_prob for _, turn in turns]
            self._sides.append(
                (
                    torch.tensor(at, dtype=torch.long, device=device),
                    torch.tensor(owner, dtype=torch.long, device=device),
                    torch.tensor(reference, dtype=torch.float32, device=device),
                )
            )

    def slopes(self, log_probs: Tensor, *, beta: float) -> tuple[Tensor, Outcome]:
        """d(sum of the losses) / d(log_probs) [R], and what came of each pair, from log_probs [R]."""
        leaf = log_probs.detach().requires_grad_()
        (at_w, pair_w, ref_w), (at_l, pair_l, ref_l) = self._sides
        loss = trajectory_dpo_loss(
            leaf[at_w], leaf[at_l], ref_w, ref_l, pair_w, pair_l, pairs=self.pairs, beta=beta
        )  # [P]
        (slopes,) = torch.autograd.grad(loss.sum(), leaf)
        values = log_probs.detach()
        zeros = values.new_zeros(self.pairs)
        chosen = zeros.index_add(0, pair_w, implicit_reward(values[at_w], ref_w, beta=beta))
        rejected = zeros.index_add(0, pair_l, implicit_reward(values[at_l], ref_l, beta=beta))
        return slopes, Outcome(loss.detach(), chosen, rejected)


@dataclass(frozen=True)
class Round:
    """Micro-batches whose pairs are only known whole together: one, or all of a step where a pair spans several."""

    micro_batches: tuple[tuple[Branches, ...], ...]
    pairs: tuple[PreferencePair, ...]


@dataclass(frozen=True)
class Batch:
    """One process's share of a step. Every process has as many rounds of as many micro-batches (FSDP needs it)."""

    rounds: tuple[Round, ...]
    pairs: int  # of all processes


class Batches:
    """The steps of a training run, the same however often it is begun: `batches[0]` … `batches[len(batches) - 1]`.

    An epoch's order is drawn by (seed, epoch). A step takes whole units until it has `batch_pairs` pairs or more.
    """

    def __init__(
        self,
        pairs: Sequence[PreferencePair],
        *,
        batch_pairs: int,
        micro_batch_tokens: int,
        epochs: int,
        seed: int,
        share: bool,
        group: Group = SOLO,
    ) -> None:
        self.limit, self.share, self.group = micro_batch_tokens, share, group
        all_units = units(pairs)
        self.steps: list[list[Unit]] = []
        for epoch in range(epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(all_units))
            self.steps += _filled([all_units[i] for i in order], len, batch_pairs, at_least=True)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        """This process's share of a step."""
        some = self.steps[step]
        shares = [self._packed(mine) for mine in _dealt(some, self._cost, self.group.size)]
        whole = all(fits for _, fits in shares)
        plans = [self._rounds(micro, whole) for micro, _ in shares]
        depth = max(sum(len(r.micro_batches) for r in rounds) for rounds in plans)
        rounds = _lengthened(plans[self.group.rank], depth, filler=nodes_of(some[0])[:1], whole=whole)
        return Batch(rounds, sum(map(len, some)))

    def _cost(self, pairs: Iterable[PreferencePair]) -> int:
        return sum(map(self._node_cost, nodes_of(pairs)))

    def _node_cost(self, node: Branches) -> int:
        return node.cost if self.share else sum(len(node.prompt) + len(reply) for reply in node.replies)

    def _packed(self, mine: Sequence[Unit]) -> tuple[list[list[Unit]], bool]:
        """Units by micro-batch, and whether each has the room; a single node always stays whole."""
        fits = all(self._cost(unit) <= self.limit or len(nodes_of(unit)) == 1 for unit in mine)
        return _filled(mine, self._cost, self.limit), fits

    def _rounds(self, micro: Sequence[Sequence[Unit]], whole: bool) -> list[Round]:
        by_micro = [tuple(pair for unit in some for pair in unit) for some in micro]
        if whole:
            return [Round((nodes_of(pairs),), pairs) for pairs in by_micro]
        pairs = tuple(pair for some in by_micro for pair in some)
        nodes = _filled(nodes_of(pairs), self._node_cost, self.limit)
        return [Round(tuple(map(tuple, nodes)), pairs)]


def _lengthened(rounds: list[Round], depth: int, *, filler: tuple[Branches, ...], whole: bool) -> tuple[Round, ...]:
    """As many micro-batches as the busiest process has, the last ones for no pair."""
    if whole:
        return (*rounds, *[Round((filler,), ())] * (depth - len(rounds)))
    micro = rounds[0].micro_batches
    return (Round(micro + (filler,) * (depth - len(micro)), rounds[0].pairs),)


def _dealt(some: Sequence[Unit], cost: Callable[[Unit], int], hands: int) -> list[list[Unit]]:
    """Units shared out evenly: the longest first, each to who has least so far."""
    shares: list[list[Unit]] = [[] for _ in range(hands)]
    loads = [0] * hands
    for unit in sorted(some, key=cost, reverse=True):
        least = loads.index(min(loads))
        shares[least].append(unit)
        loads[least] += cost(unit)
    return shares


def _filled(items: Iterable[T], size: Callable[[T], int], limit: int, *, at_least: bool = False) -> list[list[T]]:
    """Items in their order, in groups of `limit` at most (but never none), or as soon as they reach it."""
    groups: list[list[T]] = []
    total = limit + 1
    for item in items:
        full = total >= limit if at_least else total + size(item) > limit
        if full:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += size(item)
    return groups
