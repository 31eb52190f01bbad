"""Products or restaurants by their ids."""

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Identified(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


class ById(Generic[T]):
    """In a fixed order."""

    def __init__(self, items: Iterable[T]) -> None:
        self._by_id = {item.id: item for item in items}

    def __getitem__(self, item_id: str) -> T:
        return self._by_id[item_id]

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._by_id

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)
