"""Compare agents on the same held-out tasks (Best-of-Q, 4.1: three runs each)."""

from collections.abc import Sequence

from bestofq.agents.scorers.learned import Values
from bestofq.build.context import RunContext
from bestofq.build.settings import AgentKind
from bestofq.core.observation import Split
from bestofq.recipes.collect import Play, collect
from bestofq.store.records import EpisodeSummary

AGENTS: tuple[AgentKind, ...] = ("prompting", "random", "picker", "best-of-q", "prior")


async def compare(
    context: RunContext,
    run: str,
    agents: Sequence[AgentKind] = AGENTS,
    *,
    values: Values | None,
    split: Split,
    tasks: int,
    runs: int,
    n: int | None = None,
) -> dict[AgentKind, list[EpisodeSummary]]:
    """`runs` passes of each agent over the first `tasks` tasks of a split, stored as the run `run`."""
    found = {}
    for kind in agents:
        ranked_by = values if context.settings.reads_q(kind) else None
        play = Play(kind, repeats=runs, values=ranked_by, split=split, limit=tasks, n=n)
        found[kind] = await collect(context, run, play)
    return found
