"""Do logs tell more of a ranked agent if a share of them explores around it, and not around the first candidate?

python -m experiments.gate.greedy_share: the scripted scorers of known worth, five minutes. It can be resumed.
"""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np

from bestofq.agents.agent import Agent
from bestofq.agents.selectors import EpsilonGreedySelector
from bestofq.recipes.api import play
from bestofq.reports.off_policy import first, greedy, local_approximation
from bestofq.reports.stats import attempts_of, paired_difference
from bestofq.store.store import Store
from bestofq.testing import ScriptedProposer
from experiments import noisy_scorers as noisy
from experiments.gate.study import LOGGED, show

RUN, REPEATS, OUT = "seed", 4, Path("experiments/gate/greedy_share.json")


async def collect(store: Store, strength: float) -> None:
    """Episodes of the scorer's argmax, and exploring ones around it."""
    scorer, proposer = noisy.Noisy(strength), ScriptedProposer(noisy.propose)
    explorer = Agent(name="explore", proposer=proposer, scorer=scorer, selector=EpsilonGreedySelector(noisy.EPSILON))
    for run, agent in ("played", Agent(name="argmax", proposer=proposer, scorer=scorer)), ("around", explorer):
        await play(agent, noisy.SUITE, store, tasks=LOGGED, repeats=REPEATS, run=f"{run} {strength:g}")


async def main() -> None:
    rows = []
    with Store.open(Path("runs/gate-greedy-share")) as store:
        agent = Agent(name="first", proposer=ScriptedProposer(noisy.propose))
        await play(agent, noisy.SUITE, store, tasks=LOGGED, repeats=REPEATS, run="first")
        explorer = Agent(name="explore", proposer=agent.proposer, selector=EpsilonGreedySelector(noisy.EPSILON))
        await play(explorer, noisy.SUITE, store, tasks=LOGGED, repeats=REPEATS, run="around first")
        alone, base = attempts_of(store.summaries(run="first")), [*store.episodes(run="around first")]
        for strength in noisy.STRENGTHS:
            await collect(store, strength)
            around = [*store.episodes(run=f"around {strength:g}")]
            played = paired_difference(attempts_of(store.summaries(run=f"played {strength:g}")), alone)
            row: dict[str, object] = {"strength": strength, "played": show(played)}
            for name, episodes in {"none": base, "half": base[::2] + around[1::2], "all": around}.items():
                log = noisy.ranked(episodes, noisy.Noisy(strength))
                row[name] = show(local_approximation(log, greedy(log), first(log)).difference)
            rows.append(row)
    off = {name: np.array([row[name][0] - row["played"][0] for row in rows]) for name in ("none", "half", "all")}  # type: ignore[index]
    errors = {
        name: {"mean error": round(float(abs(e).mean()), 1), "bias": round(float(e.mean()), 1)}
        for name, e in off.items()
    }
    OUT.write_text(json.dumps({"errors": errors, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{errors}\n")


if __name__ == "__main__":
    asyncio.run(main())
