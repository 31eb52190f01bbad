"""The control of a search that sees rewards: independent rollouts that stop at the first success (Agent Q, 6.2).

    python -m experiments.agent_q.sampled STORE RUN    success and model calls with 1, 2, … rollouts of each task

Each action of a rollout is drawn from the policy. A search has the same tasks and the same stop, but its rollouts share
a tree.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bestofq.agents.proposers import SamplingProposer
from bestofq.config import agents
from bestofq.config.models import Models
from bestofq.core.decision import Proposal, State
from bestofq.reports.stats import UNIT, Quantity
from bestofq.store.store import Store


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
    folder, run = sys.argv[1:]
    tasks: dict[str, dict[int, tuple[bool, int]]] = defaultdict(dict)
    with Store.open(Path(folder), read_only=True) as store:
        summaries = {episode.id: episode for episode in store.summaries(run=run, status="finished")}
        for episode in store.episodes(run=run, status="finished"):
            calls, summary = sum(used.calls for used in episode.usage), summaries[episode.id]
            tasks[summary.task][summary.repeat] = summary.success, calls
    for k in range(1, min(map(len, tasks.values())) + 1):
        solved, calls = {}, 0
        for task, tries in tasks.items():
            first = [tries[repeat] for repeat in sorted(tries)[:k]]
            stop = next((i for i, (success, _) in enumerate(first) if success), k - 1)
            solved[task] = float(first[stop][0]), 1.0
            calls += sum(count for _, count in first[: stop + 1])
        value = Quantity(solved, UNIT).measure
        interval = f"[{100 * value.interval.low:.1f}, {100 * value.interval.high:.1f}]" if value.interval else ""
        sys.stdout.write(
            f"{k:3} rollouts: {100 * (value.value or 0):5.1f} % {interval} {calls / len(tasks):.1f} calls a task\n"
        )


if __name__ == "__main__":
    main()
