"""The runs of a store as lines of a table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bestofq.reports.stats import distinct, grouped
from bestofq.store.records import TreeSummary
from bestofq.store.store import Store


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run, its agents' counts added up."""

    name: str
    agents: Sequence[str]
    suites: Sequence[str]
    trees: Sequence[TreeSummary]
    episodes: int
    running: int
    decided: int
    successes: int
    last_at: str


def run_lines(store: Store, *, only: Collection[str] | None = None) -> list[RunLine]:
    """As the catalogue orders them; `only` these runs."""
    by_run = grouped(store.catalogue.agents(), lambda line: line.run)
    grown = grouped(store.trees.summaries(), lambda tree: tree.run)

    def run_line(name: str) -> RunLine:
        lines, trees = by_run.get(name, []), grown.get(name, [])
        return RunLine(
            name=name,
            agents=distinct(line.agent for line in lines),
            suites=distinct(line.suite for line in lines),
            trees=trees,
            episodes=sum(line.episodes for line in lines),
            running=sum(line.running for line in lines),
            decided=sum(line.decided for line in lines),
            successes=sum(line.successes for line in lines),
            last_at=max([*(line.last_at for line in lines), *(tree.saved_at for tree in trees)], default=""),
        )

    return [run_line(name) for name in store.catalogue.runs() if only is None or name in only]
