"""What a language model is tuned on as batches: items of one node together, dealt to processes, in micro-batches of so
many tokens. An item is a preference pair, or a turn of a successful trajectory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from bestofq.core.preferences import Turn
from bestofq.learning.config import TuningConfig
from bestofq.learning.shared_prefix import Branches

Tokens = tuple[int, ...]
Item = TypeVar("Item")
T = TypeVar("T")
Unit = tuple[Item, ...]  # items that stay together: all of one node, or one pair of trajectories
Turns = Callable[[Item], Iterable[Turn]]  # the turns of an item


def units(items: Iterable[Item], turns: Turns[Item]) -> list[Unit[Item]]:
    """Items by their node, in the order in which each unit's first item comes."""
    together: dict[object, list[Item]] = defaultdict(list)
    for index, item in enumerate(items):
        prompts = {turn.prompt_ids for turn in turns(item)}
        together[prompts.pop() if len(prompts) == 1 else index].append(item)
    return [tuple(some) for some in together.values()]


def nodes_of(turns: Iterable[Turn]) -> tuple[Branches, ...]:
    """Each prompt once, with each of its replies once."""
    replies: dict[Tokens, dict[Tokens, None]] = defaultdict(dict)
    for turn in turns:
        replies[turn.prompt_ids][turn.reply_ids] = None
    return tuple(Branches(prompt, tuple(some)) for prompt, some in replies.items())


@dataclass(frozen=True)
class BatchRound(Generic[Item]):
    """Micro-batches whose items are only known whole together: one, or all of a step where an item spans several."""

    micro_batches: tuple[tuple[Branches, ...], ...]
    items: tuple[Item, ...]


@dataclass(frozen=True)
class PairBatch(Generic[Item]):
    """One process's share of a step. Every process has as many rounds of as many micro-batches (FSDP needs it)."""

    rounds: tuple[BatchRound[Item], ...]
    items: tuple[Item, ...]  # of all processes


class PairBatches(Generic[Item]):
    """The steps of a training run, the same however often it is begun: `batches[0]` … `batches[len(batches) - 1]`. An
    epoch's order is drawn by (seed, epoch). A step takes whole units until it has `batch_size` items or more."""

    def __init__(
        self,
        items: Sequence[Item],
        turns: Turns[Item],
        config: TuningConfig,
        *,
        share: bool,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.limit, self.share, self._turns = config.micro_batch_tokens, share, turns
        self.rank, self.size = rank, size
        all_units = units(items, turns)
        self.steps: list[list[Unit[Item]]] = []
        for epoch in range(config.epochs):
            order = np.random.default_rng([config.seed, epoch]).permutation(len(all_units))
            self.steps += _fill_groups([all_units[i] for i in order], len, config.batch_size, at_least=True)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> PairBatch[Item]:
        """This process's share of a step: as many micro-batches as the busiest process has, the last for no item."""
        some, rank = self.steps[step], self.rank
        shares = _dealt(some, self._cost, self.size)
        filler = self._nodes(some[0])[:1]
        if all(self._cost(unit) <= self.limit or len(self._nodes(unit)) == 1 for unit in some):
            by_unit = [_fill_groups(mine, self._cost, self.limit) for mine in shares]
            rounds = [BatchRound((self._nodes(items),), items) for items in map(_items, by_unit[rank])]
            rounds += [BatchRound((filler,), ())] * (max(map(len, by_unit)) - len(rounds))
        else:
            by_node = [_fill_groups(self._nodes(_items(mine)), self._node_cost, self.limit) for mine in shares]
            micro = [tuple(nodes) for nodes in by_node[rank]]
            micro += [filler] * (max(map(len, by_node)) - len(micro))
            rounds = [BatchRound(tuple(micro), _items(shares[rank]))]
        return PairBatch(tuple(rounds), _items(some))

    def _nodes(self, items: Iterable[Item]) -> tuple[Branches, ...]:
        return nodes_of(turn for item in items for turn in self._turns(item))

    def _cost(self, items: Iterable[Item]) -> int:
        return sum(map(self._node_cost, self._nodes(items)))

    def _node_cost(self, node: Branches) -> int:
        return node.cost if self.share else sum(len(node.prompt) + len(reply) for reply in node.replies)


def _items(some: Iterable[Unit[Item]]) -> tuple[Item, ...]:
    return tuple(item for unit in some for item in unit)


def _dealt(some: Sequence[Unit[Item]], cost: Callable[[Unit[Item]], int], hands: int) -> list[list[Unit[Item]]]:
    """Units shared out evenly: the longest first, each to who has least so far."""
    shares: list[list[Unit[Item]]] = [[] for _ in range(hands)]
    loads = [0] * hands
    for unit in sorted(some, key=cost, reverse=True):
        least = loads.index(min(loads))
        shares[least].append(unit)
        loads[least] += cost(unit)
    return shares


def _fill_groups(items: Iterable[T], size: Callable[[T], int], limit: int, *, at_least: bool = False) -> list[list[T]]:
    """Items in their order, in groups of `limit` at most (but never none), or as soon as they reach it."""
    groups: list[list[T]] = []
    total = limit + 1
    for item in items:
        if total >= limit if at_least else total + size(item) > limit:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += size(item)
    return groups
