"""The control of a search that sees rewards: independent rollouts that stop at the first success (Agent Q, 6.2).

    python -m experiments.agent_q.sampled STORE RUN EPISODES.csv    success and calls with 1, 2, … rollouts, and MCTS

Each action of a rollout is drawn from the policy. A search has the same tasks and the same stop, but its rollouts share
a tree.
"""

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bestofq.agents.proposers import SamplingProposer
from bestofq.config import agents
from bestofq.config.models import Models
from bestofq.core.decision import Proposal, State
from bestofq.reports.stats import SIGNED, UNIT, Quantity
from bestofq.reports.table import Cell, Table, columns
from bestofq.store.store import Store
from experiments.agent_q.comparison import MCTS


@dataclass(frozen=True)
class SampledProposer:
    """`Proposer` of one candidate, which is drawn and never the greedy one."""

    proposer: SamplingProposer

    async def propose(self, state: State, n: int) -> Proposal:
        return await self.proposer.sample(state)


def make_proposer(models: Models) -> SampledProposer:
    """The proposer of the settings, without its greedy reply."""
    proposer = agents.make_proposer(models.with_settings(models.settings.model_copy(update={"proposer": None})))
    assert isinstance(proposer, SamplingProposer)
    return SampledProposer(proposer)


def main() -> None:
    """Rollouts are taken in the order of their passes. A task stops at its first success."""
    folder, run, path = sys.argv[1:]
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == MCTS]
    searched = {row["task"].partition("/")[2]: float(row["success"] == "True") for row in rows}
    tasks: dict[str, dict[int, tuple[bool, int]]] = defaultdict(dict)
    with Store.open(Path(folder), read_only=True) as store:
        summaries = {episode.id: episode for episode in store.summaries(run=run, status="finished")}
        for episode in store.episodes(run=run, status="finished"):
            calls, summary = sum(used.calls for used in episode.usage), summaries[episode.id]
            tasks[summary.task][summary.repeat] = summary.success, calls
    lines: list[tuple[Cell, ...]] = []
    for k in range(1, min(map(len, tasks.values())) + 1):
        solved, gain, calls = {}, {}, 0
        for task, tries in tasks.items():
            first = [tries[repeat] for repeat in sorted(tries)[:k]]
            stop = next((i for i, (success, _) in enumerate(first) if success), k - 1)
            solved[task] = float(first[stop][0]), 1.0
            gain[task] = searched[task] - solved[task][0], 1.0
            calls += sum(count for _, count in first[: stop + 1])
        lines.append((k, Quantity(solved, UNIT).measure, calls / len(tasks), Quantity(gain, SIGNED).measure))
    heads = columns("rollouts", "success %", "model calls a task", "MCTS more %", signed=["MCTS more"])
    sys.stdout.write(Table.of("sampled", "Independent rollouts", heads, lines).to_markdown())


if __name__ == "__main__":
    main()
