"""What the Q-functions of an ablation choose at stored steps of dev tasks, rated by the suite's oracle."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bestofq.agents.scorers.learned import QScorer
from bestofq.core.decision import Episode
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats
from bestofq.learning.value import ValueModel
from bestofq.recipes.ablation import AblationRunner, facts_of, key_of
from bestofq.recipes.best_of_q import collect, embedded
from bestofq.recipes.parts import Parts
from bestofq.recipes.worlds import open_world
from bestofq.rollouts.episode import state_at
from experiments.ranking import OracleStep, oracle_steps


class DevSteps(NamedTuple):
    """Stored dev episodes of a policy that chose at random, and the vectors of all they hold."""

    episodes: list[Episode]
    vectors: Mapping[str, Floats]


@dataclass
class DevRanker:
    """The `Ranker` of ablations. Dev episodes are collected once for all arms that share them."""

    _dev: dict[str, DevSteps] = field(default_factory=dict)

    async def __call__(self, runner: AblationRunner, parts: Parts, values: ValueModel) -> list[OracleStep]:
        dev = await self._steps(runner, parts)
        known = KnownVectors(parts.embedder.spec, dev.vectors)
        scorer = QScorer(values, known, parts.texts, checkpoint=values.checkpoint)
        return list(oracle_steps(parts, await rescored(dev.episodes, scorer)))

    async def _steps(self, runner: AblationRunner, parts: Parts) -> DevSteps:
        facts, spec = facts_of(parts, "dev"), parts.embedder.spec
        key, run = key_of({**facts, "embed": spec.hash}), f"dev-{key_of(facts)}"
        if key not in self._dev:
            async with open_world(parts) as world:
                done = await collect(
                    parts,
                    world,
                    runner.store,
                    run,
                    "random",
                    runner.console,
                    repeats=1,
                    split="dev",
                    limit=runner.ablation.dev_tasks,
                )
            wanted = {episode.id for episode in done}
            episodes = [e for e in runner.store.episodes(run=run) if e.id in wanted]
            items = {item.key: item for episode in episodes for item in _items(parts, episode)}
            found = embedded(parts, list(items.values()), runner.store, runner.sources.vectors(spec), runner.console)
            self._dev[key] = DevSteps(episodes, dict(zip(items, found, strict=True)))
        return self._dev[key]


@dataclass
class KnownVectors:
    """`Embedder` of what was embedded before."""

    spec: EmbedSpec
    vectors: Mapping[str, Floats]

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.stack([self.vectors[item.key] for item in items]), 0


def _items(parts: Parts, episode: Episode) -> Iterable[EmbedItem]:
    """All that ranking the candidates of an episode's steps reads."""
    texts = parts.texts
    yield texts.task(episode.task)
    for index, step in enumerate(episode.steps):
        state = state_at(episode.task, episode.steps[:index], step.observation)
        yield texts.state(state)
        yield from (texts.action(state, candidate) for candidate in step.decision.candidates)


async def rescored(episodes: Iterable[Episode], scorer: Scorer, *, at_once: int = 64) -> list[Episode]:
    """The episodes as if `scorer` had weighed each stored step's candidates: what it would have chosen there.

    No episode is played again, so any number of Q-functions can be ranked on the same steps in seconds.
    """
    gate = asyncio.Semaphore(at_once)

    async def rescore(episode: Episode) -> Episode:
        steps = []
        for index, step in enumerate(episode.steps):
            state = state_at(episode.task, episode.steps[:index], step.observation)
            async with gate:
                scores = await scorer.score(state, step.decision.candidates)
            chosen = int(np.argmax(scores.values))
            decision = step.decision.model_copy(update={"scores": scores.values, "chosen": chosen})
            steps.append(step.model_copy(update={"decision": decision}))
        return episode.model_copy(update={"steps": tuple(steps)})

    return list(await asyncio.gather(*(rescore(episode) for episode in episodes)))
