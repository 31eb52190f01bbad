"""Batches as large as the device's memory allows, found out by trying."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from bestofq.core.errors import ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")
_GROW_AFTER = 64  # batches in a row that fitted


class MicroBatches:
    """Work in batches of at most `area` padded tokens (items × the longest of them). Where a batch runs out of memory,
    the area is halved and what failed is done again; after enough that fitted it doubles, up to where it began.
    """

    def __init__(self, area: int) -> None:
        self.area = area
        self._most = area
        self._fitted = 0

    def run(
        self, work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item], lengths: Sequence[int]
    ) -> list[Result]:
        """The result for each item, in their order; alike `lengths` [tokens] run together. ModelError where one item
        alone does not fit into memory."""
        results: dict[int, Result] = {}
        todo = sorted(range(len(items)), key=lambda i: lengths[i], reverse=True)  # what hardly fits is tried first
        while todo:
            size = max(1, min(len(todo), self.area // max(1, lengths[todo[0]])))
            group = todo[:size]
            done = _unless_full(work, [items[i] for i in group])
            if done is not None:
                results.update(zip(group, done, strict=True))
                todo = todo[size:]
                self._fits()
            elif size > 1:
                self.area, self._fitted = size * lengths[todo[0]] // 2, 0
            else:
                raise ModelError(
                    f"an input of {lengths[todo[0]]} tokens does not fit into the device's memory: "
                    "allow fewer pixels a picture, or take a smaller model"
                )
        return [results[i] for i in range(len(items))]

    def _fits(self) -> None:
        self._fitted += 1
        if self._fitted >= _GROW_AFTER:
            self.area, self._fitted = min(2 * self.area, self._most), 0


def _unless_full(work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item]) -> Sequence[Result] | None:
    """The results, or None where memory ran out; what the failed attempt held is given back."""
    try:
        return work(items)
    except torch.OutOfMemoryError:
        pass  # leaving the handler lets go of the tensors that the error's frames hold
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None
