"""Who plays the episodes of a run: this process, or a process of a cluster (`cluster.py`)."""

import logging
from dataclasses import dataclass, replace
from typing import Self

from bestofq.agents.agent import Agent
from bestofq.core.decision import Episode, Verdict
from bestofq.core.errors import InfraError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.store.records import EpisodeKey
from bestofq.store.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlayerSlot:
    """An episode to be played."""

    task: Task
    repeat: int
    retries: int = 0  # once the infrastructure cut it
    begun: Episode | None = None  # to go on with: running in the store, and nobody plays it
    lost: int = 0  # times that the process died that played it

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.task.suite, self.task.id, self.repeat)


@dataclass(frozen=True)
class PlayedEpisode:
    """What came of a slot. `left`: where it was cut and can go on."""

    verdict: Verdict
    left: Episode | None = None


class LocalPlayer:
    """Plays in this process, each episode in an environment of its own. The async context manager closes them."""

    def __init__(self, make_env: EnvFactory, agent: Agent, store: Store, run: str, options: EpisodeOptions) -> None:
        self._make_env, self._agent, self._store, self._run, self._options = make_env, agent, store, run, options
        self._all: list[Env] = []
        self._free: list[Env] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        for env in self._all:
            await (env.close() if error is None else _close_broken(env))

    async def ready(self) -> None:
        """At once."""

    async def do(self, slot: PlayerSlot) -> PlayedEpisode:
        """SupersededError where another process plays it, else as `record_episode`."""
        env = self._free.pop() if self._free else await self._make_env()
        if env not in self._all:
            self._all.append(env)
        options = replace(self._options, go_on_when_cut=slot.retries > 0)
        broken = False
        try:
            episode = await record_episode(
                self._agent,
                env,
                slot.task,
                store=self._store,
                run=self._run,
                repeat=slot.repeat,
                options=options,
                begun=slot.begun,
            )
            broken = episode.verdict.outcome == "infra_error"
        finally:
            if not broken:
                self._free.append(env)
        if broken:
            self._all.remove(env)
            await _close_broken(env)
        goes_on = broken and options.go_on_when_cut and options.may_repeat is not None
        return PlayedEpisode(episode.verdict, episode if goes_on else None)


async def _close_broken(env: Env) -> None:
    """Close an environment that has just failed; that it fails again in closing is no news."""
    try:
        await env.close()
    except InfraError as error:
        log.warning("an environment that had failed could not be closed either: %s", error)
