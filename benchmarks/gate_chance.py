"""How often the gate opens by chance, and what it keeps of real gains, from the exploring episodes of a store.

    .venv/bin/python benchmarks/gate_chance.py runs/memory-shop --out benchmarks/results/gate_chance-shop.json

Chance: the outcomes are shuffled among the episodes, so nothing is to be gained. Kept: half of the groups (of the
tasks, if these share less than two) teach a memory and calibrate its gate; the other half tells what the memory gains
there with and without it. It is expected as by `bestofq estimate`, and not played. About ten minutes on two cores.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from bestofq.agents.scorers import memory as keys_of_memory
from bestofq.agents.scorers.memory import experiences, step_keys
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.gate import Held
from bestofq.core.logged import LoggedChoices
from bestofq.envs.splits import uniform
from bestofq.learning.memory import Memory
from bestofq.recipes import estimate as recipe
from bestofq.recipes.identity import commit
from bestofq.reports.estimate import LEAST_TASKS
from bestofq.reports.gate import Thresholds, calibrate, gate_policy
from bestofq.reports.off_policy import first, greedy, local_approximation
from bestofq.store.location import Location
from bestofq.store.store import Store

FOLDS = 5


class Logs:
    """Decided episodes, with the keys of their candidates computed once."""

    def __init__(self, place: Location, run: str) -> None:
        with Store.open(place, read_only=True) as store:
            self.episodes = [e for e in store.episodes(run=run) if e.steps and e.verdict.outcome in DECIDED]
            self.epsilons: Mapping[str, object] = {each.name: each.config.get("epsilon") for each in store.runs()}
        self.keys = {episode.id: [*step_keys(episode)] for episode in self.episodes}
        for module in (recipe, keys_of_memory):
            module.step_keys = lambda episode: self.keys[episode.id]  # type: ignore[attr-defined]
        grouped = len({episode.task.group for episode in self.episodes}) > 1
        self.groups = {e.id: (grouped and e.task.group) or e.task.id for e in self.episodes}

    def learn(self, episodes: Sequence[Episode]) -> Memory:
        return Memory.learn(experiences(episodes), train_n=3)

    def rank(self, episodes: Sequence[Episode], memory: Memory) -> LoggedChoices:
        return recipe.rank_logs(recipe.Logs(None, episodes, self.epsilons), memory)

    def cross_fit(self, episodes: Sequence[Episode], names: Sequence[str]) -> LoggedChoices:
        fold = np.array([int(uniform(name) * FOLDS) for name in names])
        parts = []
        for number in np.unique(fold):
            of = dict(zip((episode.id for episode in episodes), fold == number, strict=True))
            here, rest = ([e for e in episodes if of[e.id]], [e for e in episodes if not of[e.id]])
            parts.append(self.rank(here, self.learn(rest)))
        return LoggedChoices.concatenate(parts)

    def calibrate(self, episodes: Sequence[Episode], seed: int) -> Thresholds:
        """As `bestofq train` does, with tasks, groups and passes held out."""
        tasks = [f"{seed}/{e.task.id}" for e in episodes]
        named: dict[Held, list[str]] = {
            "groups": [f"{seed}/{self.groups[e.id]}" for e in episodes],
            "passes": [f"{seed}/{e.task.id}/{number}" for number, e in enumerate(episodes)],
        }
        others = {
            held: self.cross_fit(episodes, names) for held, names in named.items() if len({*names}) != len({*tasks})
        }
        return calibrate(self.cross_fit(episodes, tasks), others, LEAST_TASKS)[0]


def opens_by_chance(logs: Logs, draw: int) -> bool:
    """Whether the gate opens although the outcomes were shuffled among the episodes."""
    order = np.random.default_rng(draw).permutation(len(logs.episodes))
    verdicts = [logs.episodes[at].verdict for at in order]
    shuffled = [e.model_copy(update={"verdict": v}) for e, v in zip(logs.episodes, verdicts, strict=True)]
    return any(limit is not None for limit in logs.calibrate(shuffled, draw))


def keeps(logs: Logs, draw: int) -> tuple[float, float]:
    """Points that argmax and the gated agent are expected to gain on the other half of the groups."""
    groups = sorted({*logs.groups.values()})
    half = {*np.random.default_rng(draw).permutation(groups)[: len(groups) // 2]}
    here, there = ([e for e in logs.episodes if (logs.groups[e.id] in half) is own] for own in (True, False))
    log = logs.rank(there, logs.learn(here))
    policies = greedy(log), gate_policy(log, logs.calibrate(here, draw))
    argmax, gated = (local_approximation(log, pi, first(log)).difference for pi in policies)
    return tuple(100 * each.mean if each else 0.0 for each in (argmax, gated))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Location.of)
    parser.add_argument("--run", default="seed")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    logs, console = Logs(given.store, given.run), Console()
    opened = [opens_by_chance(logs, draw) for draw in track(range(given.draws), "shuffled", console=console)]
    kept = np.array([keeps(logs, draw) for draw in track(range(given.draws // 4), "halves", console=console)])
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "episodes": len(logs.episodes),
        "opens by chance": float(np.mean(opened)),
        "expected, argmax": {"mean": round(kept[:, 0].mean(), 1), "worst": round(kept[:, 0].min(), 1)},
        "expected, gated": {"mean": round(kept[:, 1].mean(), 1), "worst": round(kept[:, 1].min(), 1)},
    }
    console.print(result)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
