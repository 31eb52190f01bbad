"""What the Q-functions of an ablation choose at stored steps of dev tasks, rated by the suite's oracle."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bestofq.agents.scorers.learned import QScorer, Values
from bestofq.config.models import Models
from bestofq.core.decision import Episode, state_at
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.identity import key_of
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats
from bestofq.learning.memory import Memory
from bestofq.recipes.collect import Play
from bestofq.recipes.q_training import embed_items
from experiments.ablation import AblationRunner, facts_of
from experiments.ranking import OracleStep, oracle_steps


class DevSteps(NamedTuple):
    """Stored dev episodes of a policy that chose at random, and the vectors of all they hold."""

    episodes: list[Episode]
    vectors: Mapping[str, Floats]


@dataclass
class DevRanker:
    """The `Ranker` of ablations. Dev episodes are collected once for all arms that share them."""

    _dev: dict[str, DevSteps] = field(default_factory=dict)

    async def __call__(self, runner: AblationRunner, models: Models, values: Values) -> list[OracleStep]:
        dev = await self._steps(runner, models)
        known = KnownVectors(models.embedder.spec, dev.vectors)
        assert not isinstance(values, Memory)
        scorer = QScorer(values, known, models.texts, checkpoint=values.checkpoint)
        return list(oracle_steps(models, await rescored(dev.episodes, scorer), dev.episodes))

    async def _steps(self, runner: AblationRunner, models: Models) -> DevSteps:
        facts, spec = facts_of(models, "dev"), models.embedder.spec
        key, run = key_of({**facts, "embed": spec.hash}), f"dev-{key_of(facts)}"
        if key not in self._dev:
            play = Play("random", split="dev", limit=runner.ablation.dev_tasks)
            done = await runner.collect(models, "dev", play)
            wanted = {episode.id for episode in done}
            episodes = [e for e in runner.store.episodes(run=run) if e.id in wanted]
            items = {item.key: item for episode in episodes for item in _items(models, episode)}
            found = embed_items(models, list(items.values()), runner.store, runner.sources.vectors(spec))
            self._dev[key] = DevSteps(episodes, dict(zip(items, found, strict=True)))
        return self._dev[key]


@dataclass
class KnownVectors:
    """`Embedder` of what was embedded before."""

    spec: EmbedSpec
    vectors: Mapping[str, Floats]

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.stack([self.vectors[item.key] for item in items]), 0


def _items(models: Models, episode: Episode) -> Iterable[EmbedItem]:
    """All that ranking the candidates of an episode's steps reads."""
    texts = models.texts
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
