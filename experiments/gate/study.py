"""Gated agents good and bad: what their logs predict, and what they do on held-out tasks.

python -m experiments.gate.study demo|shop|scripted keeps a row for each agent in ENV.json; started again, it continues.
Demo and shop: memories of the episodes of experiments/memory/run.sh, and its kept candidates. Scripted: scorers of
known worth (experiments.noisy_scorers) and memories in the text shop, played on other goals.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest.mock import patch

import numpy as np

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import GatedScorer
from bestofq.agents.scorers.memory import MemoryScorer, experiences
from bestofq.agents.selectors import EpsilonGreedySelector
from bestofq.cli.config import load_config
from bestofq.config.context import OpenSuite, open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode
from bestofq.core.gate import Gate, Held
from bestofq.core.logged import LoggedChoices
from bestofq.core.observation import Task
from bestofq.core.protocols import Proposer, Scorer
from bestofq.envs.splits import uniform
from bestofq.learning.config import EpisodeSet
from bestofq.learning.memory import Experience, Keys, Memory
from bestofq.recipes import estimate as library
from bestofq.recipes.identity import current_provenance
from bestofq.recipes.q_training import episodes_of, select_episodes
from bestofq.reports.gate import calibrate as choose
from bestofq.reports.gate import gate_policy
from bestofq.reports.off_policy import first, greedy, local_approximation
from bestofq.reports.stats import PairedDifference, attempts_of, paired_difference, success_rate
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.testing import ScriptedProposer
from experiments import noisy_scorers as noisy
from experiments.memory.proposals import make_proposer


class Table(Memory):
    """A plain opponent of `learning.memory`: mean outcomes under the page, the page and the action, and the goal too.
    It has fewer keys, and no targets but outcomes."""

    @classmethod
    def learn(cls, experiences: Iterable[Experience], *, train_n: int, episodes: EpisodeSet | None = None) -> Self:
        with patch.multiple("bestofq.learning.memory", DISCOUNT=1.0, TRACE=1.0, SWEEPS=0):
            found = super().learn(experiences, train_n=train_n, episodes=episodes)
        return cls(found.table, found.mean, train_n, episodes)

    def recall(self, keys: Keys, prior: float | None = None) -> float:
        return super().recall(own_keys(keys), prior)

    def familiarity(self, keys: Keys) -> int:
        return super().familiarity(own_keys(keys))


def own_keys(keys: Keys) -> Keys:
    """Return all but the second: the kind of action and how its words fit the goal."""
    return [*keys[:1], *keys[2:]]


TASKS, LOGGED, EPSILONS = 40, 150, dict.fromkeys(("seed", "seed 0", "seed 1"), 0.5)
RUNGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "demo": {"new tasks": ()},
    "shop": {"same tasks": (), "other products": ("suite.only=*",)},
}
MADE: Mapping[str, Sequence[tuple[type[Memory], int]]] = {
    "demo": [(Memory, 250), (Memory, 120), (Memory, 60), (Memory, 30), (Table, 250)],
    "shop": [(Memory, 480), (Memory, 240), (Table, 480)],
    "scripted": [(Memory, 40), (Memory, 100), (Memory, 300)],
}
Rows = AsyncIterator[dict[str, Any]]


class Judged(NamedTuple):
    """An agent without and behind its gate, and the held-out logs that tell of it."""

    argmax: Scorer
    gated: Scorer
    logs: Mapping[str, LoggedChoices]  # by what was held out: tasks, groups
    thresholds: Sequence[float | None]


def calibrate(scorer: Any, memory: Memory, logs: Mapping[str, LoggedChoices]) -> Judged:
    """Put the scorer behind the gate that the logs choose."""
    others: dict[Held, LoggedChoices] = {"groups": logs["groups"]} if "groups" in logs else {}
    thresholds, _ = choose(logs["tasks"], others, 6)
    return Judged(scorer, GatedScorer(scorer, memory, Gate(checkpoint="", thresholds=thresholds)), logs, thresholds)


def remember(kind: type[Memory], episodes: Sequence[Episode], *, groups: bool) -> Judged:
    """A memory of these episodes, judged by memories of four fifths of the tasks, and of the groups."""

    def cross_fit(name: Callable[[Episode], str | None]) -> LoggedChoices:
        fold = {one.id: int(uniform(f"{one.task.suite}/{name(one)}") * 5) for one in episodes}
        parts = []
        for number in sorted({*fold.values()}):
            here, rest = ([one for one in episodes if (fold[one.id] == number) is held] for held in (True, False))
            learned = kind.learn(experiences(rest), train_n=3)
            parts.append(library.rank_logs(library.Logs(None, here, EPSILONS), learned))
        return LoggedChoices.concatenate(parts)

    memory = kind.learn(experiences(episodes), train_n=3)
    logs = {"tasks": cross_fit(lambda episode: episode.task.id)}
    if groups:
        logs["groups"] = cross_fit(lambda episode: episode.task.group)
    return calibrate(MemoryScorer(memory), memory, logs)


async def play(suite: OpenSuite, tasks: Sequence[Task], store: Store, rung: str, agent: Agent) -> dict[str, Any]:
    """Success of an agent, and the difference to the first candidate on the same tasks."""
    provenance = current_provenance(prompts="", seed=0)
    await store.begin_run(rung, {}, provenance)
    options = RunOptions(step_limit=suite.step_limit, judge=suite.judge, provenance=provenance)
    await run_many(tasks, suite.make_env, agent, store=store, run=rung, options=options)
    own, alone = (attempts_of(store.summaries(run=rung, agent=each)) for each in (agent.name, "first"))
    return {"success": success_rate(own).mean, "played": show(paired_difference(own, alone))}


async def compare(
    suite: OpenSuite, tasks: Sequence[Task], store: Store, names: tuple[str, str], judged: Judged, proposer: Proposer
) -> dict[str, Any]:
    """What logs predict and playing measures of an agent in a rung, without and behind its gate."""
    rung, name = names
    log = judged.logs["groups" if rung == "other products" else "tasks"]
    base, policies = first(log), {"argmax": greedy(log), "gated": gate_policy(log, judged.thresholds)}
    predicted = {kind: show(local_approximation(log, pi, base).difference) for kind, pi in policies.items()}
    row = {"rung": rung, "agent": name, "thresholds": judged.thresholds, "predicted": predicted, "curve": curve(log)}
    scorers = {"first": ConstantScorer(), "argmax": judged.argmax, "gated": judged.gated}
    if all(limit is None for limit in judged.thresholds):
        del scorers["gated"]  # it takes the first candidate
    for kind, scorer in scorers.items():
        agent = Agent(name=kind if kind == "first" else f"{name}, {kind}", proposer=proposer, scorer=scorer)
        row[kind] = await play(suite, tasks, store, rung, agent)
    return row


def show(difference: PairedDifference | None) -> list[float] | None:
    """Points: the mean, the lower and the upper end."""
    if difference is None:
        return None
    return [round(100 * end, 1) for end in (difference.mean, difference.low, difference.high)]


def curve(log: LoggedChoices) -> list[list[float]]:
    """The share of wished deviations that a margin lets through, and the expected lift in points."""
    base, best = first(log), greedy(log).argmax(axis=1)
    margin = (log.q[np.arange(len(best)), best] - log.q[:, 0]) * (best > 0)
    found = []
    for quantile in np.linspace(0, 0.95, 12):
        leaves = (margin > 0) & (margin >= np.quantile(margin[margin > 0], quantile))
        pi = np.where(leaves[:, None], np.eye(base.shape[1])[best], base)
        lift = local_approximation(log, pi, base).difference
        found.append([round(float(1 - quantile), 3), round(100 * lift.mean, 2) if lift else 0.0])
    return found


async def with_model(env: str, done: set[tuple[str, str]]) -> Rows:
    """Memories of the pocket model's episodes, and its candidates."""
    config = Path(f"experiments/memory/{env}.toml")
    with Store.open(Location.of(f"runs/memory-{env}")) as store, Store.open(Path(f"runs/gate-{env}")) as played:
        for kind, count in MADE[env]:
            name = f"{kind.__name__.lower()}, {count} episodes"
            rungs = {rung: where for rung, where in RUNGS[env].items() if (rung, name) not in done}
            if not rungs:
                continue
            judged = remember(kind, [*episodes_of(store, select_episodes(store, ["seed"], count))], groups=True)
            for rung, where in rungs.items():
                models = Models(load_config(BestOfQSettings, config, ["value=memory", *where]))
                async with open_suite(models) as suite:
                    tasks = await suite.tasks("train" if rung == "same tasks" else "test", TASKS)
                    yield await compare(suite, tasks, played, (rung, name), judged, make_proposer(models))


def know(scorer: noisy.Noisy, logged: Sequence[Episode]) -> Judged:
    return calibrate(scorer, Memory({}, 0.0, 3), {"tasks": noisy.ranked(logged, scorer)})


async def scripted(done: set[tuple[str, str]]) -> Rows:
    """Scorers of known worth, and memories, over a scripted proposer in the text shop."""
    proposer = ScriptedProposer(noisy.propose)
    explorer = Agent(name="explore", proposer=proposer, selector=EpsilonGreedySelector(noisy.EPSILON))
    with Store.open(Path("runs/gate-scripted")) as store:
        async with noisy.SUITE.open() as make_env:
            every, suite = await noisy.SUITE.tasks("train"), OpenSuite(make_env, noisy.SUITE.tasks, noisy.STEPS)
            for run in ("seed 0", "seed 1"):
                await play(suite, every[:LOGGED], store, run, explorer)
            logged = [one for run in ("seed 0", "seed 1") for one in store.episodes(run=run) if one.steps]
            made: dict[str, Callable[[], Judged]] = {}
            for strength in noisy.STRENGTHS:
                made[str(strength)] = partial(know, noisy.Noisy(strength), logged)
            for kind, count in MADE["scripted"]:
                made[f"memory, {count} episodes"] = partial(remember, kind, logged[:count], groups=False)
            for name, judge in made.items():
                if ("scripted", name) not in done:
                    tasks = every[LOGGED : LOGGED + 100]
                    yield await compare(suite, tasks, store, ("scripted", name), judge(), proposer)


async def main(env: str) -> None:
    """Keep a row for each agent and rung."""
    kept = Path(f"experiments/gate/{env}.json")
    rows: list[dict[str, Any]] = json.loads(kept.read_text("utf-8")) if kept.exists() else []
    done = {(row["rung"], row["agent"]) for row in rows}
    async for row in scripted(done) if env == "scripted" else with_model(env, done):
        rows.append(row)
        kept.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
