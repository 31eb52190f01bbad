"""The runs of a store as lines of a table."""

from collections.abc import Collection
from dataclasses import dataclass

from bestofq.store.records import AgentSummary, TreeSummary
from bestofq.store.store import Store


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run, its agents' counts added up."""

    name: str
    lines: tuple[AgentSummary, ...]
    trees: tuple[TreeSummary, ...]

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(line.agent for line in self.lines))

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(line.suite for line in self.lines))

    @property
    def episodes(self) -> int:
        return sum(line.episodes for line in self.lines)

    @property
    def running(self) -> int:
        return sum(line.running for line in self.lines)

    @property
    def told(self) -> int:
        return sum(line.told for line in self.lines)

    @property
    def successes(self) -> int:
        return sum(line.successes for line in self.lines)

    @property
    def last_at(self) -> str:
        return max([*(line.last_at for line in self.lines), *(tree.saved_at for tree in self.trees)], default="")


def run_lines(store: Store, *, only: Collection[str] | None = None) -> list[RunLine]:
    """As the catalogue orders them; `only` these runs."""
    lines: dict[str, list[AgentSummary]] = {name: [] for name in store.catalogue.runs() if only is None or name in only}
    for line in store.catalogue.agents():
        if line.run in lines:
            lines[line.run].append(line)
    trees: dict[str, list[TreeSummary]] = {}
    for tree in store.trees.summaries():
        trees.setdefault(tree.run, []).append(tree)
    return [RunLine(name=name, lines=tuple(some), trees=tuple(trees.get(name, ()))) for name, some in lines.items()]
