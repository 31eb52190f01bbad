"""Compare agents on the same held-out tasks (Best-of-Q, 4.1: three runs each)."""

from collections.abc import Sequence

from rich.console import Console

from bestofq.core.observation import Split
from bestofq.learning.value import ValueModel
from bestofq.recipes.best_of_q import collect
from bestofq.recipes.parts import Parts
from bestofq.recipes.settings import AgentKind
from bestofq.recipes.worlds import World
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

AGENTS: tuple[AgentKind, ...] = ("prompting", "random", "picker", "best-of-q", "prior")


async def compare(
    parts: Parts,
    world: World,
    store: Store,
    run: str,
    console: Console,
    *,
    agents: Sequence[AgentKind] = AGENTS,
    values: ValueModel | None,
    split: Split,
    tasks: int,
    runs: int,
    n: int | None = None,
) -> dict[AgentKind, list[EpisodeSummary]]:
    """`runs` passes of each agent over the first `tasks` tasks of a split, stored as the run `run`."""
    return {
        kind: await collect(
            parts,
            world,
            store,
            run,
            kind,
            console,
            repeats=runs,
            values=values if parts.settings.reads_q(kind) else None,
            split=split,
            limit=tasks,
            n=n,
        )
        for kind in agents
    }
