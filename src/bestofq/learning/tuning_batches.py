"""What a language model is tuned on as batches: items of one node together, dealt to processes, in micro-batches of so
many tokens. An item is a preference pair, or a turn of a successful trajectory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from bestofq.core.preferences import Turn
from bestofq.learning.distributed import SOLO, Group
from bestofq.learning.shared_prefix import Branches

Tokens = tuple[int, ...]
Item = TypeVar("Item")
T = TypeVar("T")
Unit = tuple[Item, ...]  # items that stay together: all of one node, or one pair of trajectories
Turns = Callable[[Item], Iterable[Turn]]
"""The turns of an item."""


def units(items: Iterable[Item], turns: Turns[Item]) -> list[Unit[Item]]:
    """Items by their node, in the order in which each unit's first item comes."""
    together: dict[object, list[Item]] = defaultdict(list)
    for index, item in enumerate(items):
        prompts = {turn.prompt_ids for turn in turns(item)}
        together[prompts.pop() if len(prompts) == 1 else index].append(item)
    return [tuple(some) for some in together.values()]


def own_tokens(turns: Iterable[Turn]) -> int:
    """Prompts and replies of all turns, whatever is shared."""
    return sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in turns)


def nodes_of(turns: Iterable[Turn]) -> tuple[Branches, ...]:
    """Each prompt once, with each of its replies once."""
    replies: dict[Tokens, dict[Tokens, None]] = defaultdict(dict)
    for turn in turns:
        replies[turn.prompt_ids][turn.reply_ids] = None
    return tuple(Branches(prompt, tuple(some)) for prompt, some in replies.items())


@dataclass(frozen=True)
class Round(Generic[Item]):
    """Micro-batches whose items are only known whole together: one, or all of a step where an item spans several."""

    micro_batches: tuple[tuple[Branches, ...], ...]
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """One process's share of a step. Every process has as many rounds of as many micro-batches (FSDP needs it)."""

    rounds: tuple[Round[Item], ...]
    items: tuple[Item, ...]  # of all processes


class Batches(Generic[Item]):
    """The steps of a training run, the same however often it is begun: `batches[0]` … `batches[len(batches) - 1]`.

    An epoch's order is drawn by (seed, epoch). A step takes whole units until it has `batch_size` items or more.
    """

    def __init__(
        self,
        items: Sequence[Item],
        turns: Turns[Item],
        *,
        batch_size: int,
        micro_batch_tokens: int,
        epochs: int,
        seed: int,
        share: bool,
        group: Group = SOLO,
    ) -> None:
        self.limit, self.share, self.group, self._turns = micro_batch_tokens, share, group, turns
        all_units = units(items, turns)
        self.steps: list[list[Unit[Item]]] = []
        for epoch in range(epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(all_units))
            self.steps += _filled([all_units[i] for i in order], len, batch_size, at_least=True)

    def __len__(self) -> int:
        return len(self.steps)

    def tokens(self, step: int) -> int:
        """The step's own prompts and replies, of all processes."""
        return sum(own_tokens(self._turns(item)) for unit in self.steps[step] for item in unit)

    def __getitem__(self, step: int) -> Batch[Item]:
        """This process's share of a step."""
        some = self.steps[step]
        shares = [self._packed(mine) for mine in _dealt(some, self._cost, self.group.size)]
        whole = all(fits for _, fits in shares)
        plans = [self._rounds(micro, whole) for micro, _ in shares]
        depth = max(sum(len(r.micro_batches) for r in rounds) for rounds in plans)
        rounds = _lengthened(plans[self.group.rank], depth, filler=self._nodes(some[0])[:1], whole=whole)
        return Batch(rounds, tuple(item for unit in some for item in unit))

    def _nodes(self, items: Iterable[Item]) -> tuple[Branches, ...]:
        return nodes_of(turn for item in items for turn in self._turns(item))

    def _cost(self, items: Iterable[Item]) -> int:
        return sum(map(self._node_cost, self._nodes(items)))

    def _node_cost(self, node: Branches) -> int:
        return node.cost if self.share else sum(len(node.prompt) + len(reply) for reply in node.replies)

    def _packed(self, mine: Sequence[Unit[Item]]) -> tuple[list[list[Unit[Item]]], bool]:
        """Units by micro-batch, and whether each has the room; a single node always stays whole."""
        fits = all(self._cost(unit) <= self.limit or len(self._nodes(unit)) == 1 for unit in mine)
        return _filled(mine, self._cost, self.limit), fits

    def _rounds(self, micro: Sequence[Sequence[Unit[Item]]], whole: bool) -> list[Round[Item]]:
        by_micro = [tuple(item for unit in some for item in unit) for some in micro]
        if whole:
            return [Round((self._nodes(items),), items) for items in by_micro]
        items = tuple(item for some in by_micro for item in some)
        nodes = _filled(self._nodes(items), self._node_cost, self.limit)
        return [Round(tuple(map(tuple, nodes)), items)]


def _lengthened(
    rounds: list[Round[Item]], depth: int, *, filler: tuple[Branches, ...], whole: bool
) -> tuple[Round[Item], ...]:
    """As many micro-batches as the busiest process has, the last ones for no item."""
    if whole:
        return (*rounds, *[Round[Item]((filler,), ())] * (depth - len(rounds)))
    micro = rounds[0].micro_batches
    return (Round(micro + (filler,) * (depth - len(micro)), rounds[0].items),)


def _dealt(some: Sequence[Unit[Item]], cost: Callable[[Unit[Item]], int], hands: int) -> list[list[Unit[Item]]]:
    """Units shared out evenly: the longest first, each to who has least so far."""
    shares: list[list[Unit[Item]]] = [[] for _ in range(hands)]
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
