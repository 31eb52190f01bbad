"""Who plays the episodes of a run: this process, or processes of a cluster that do the same."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bestofq.agents.scorers.learned import Values
from bestofq.config.agents import AgentKind, keeping_vectors, make_agent
from bestofq.config.context import OpenSuite, opened_there
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Split
from bestofq.recipes.tree_search import searching_agent
from bestofq.rollouts.players import LocalPlayer, PlayedEpisode, PlayerSlot
from bestofq.rollouts.progress import Progress
from bestofq.rollouts.runner import RunOptions
from bestofq.rollouts.shared import Shared
from bestofq.rollouts.workers import Worker
from bestofq.store.location import Location
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Hosts


@dataclass(frozen=True)
class Play:
    """What is played: an agent on the tasks of a split."""

    kind: AgentKind
    repeats: int = 1  # passes over the tasks
    values: Values | None = None  # of the agents that rank by a Q-function
    split: Split = "train"
    limit: int | None = None  # tasks at most; None: `suite.train_tasks`
    n: int | None = None  # candidates a step; None: `n_candidates`
    name: str = ""  # that the episodes are stored under; empty: the kind of agent

    @property
    def agent(self) -> str:
        return self.name or self.kind


def run_options(models: Models, suite: OpenSuite, provenance: Provenance | None, progress: Progress) -> RunOptions:
    return RunOptions(
        seed=models.settings.seed,
        step_limit=suite.step_limit,
        provenance=provenance,
        judge=suite.judge,
        may_repeat=suite.may_repeat,
        progress=progress,
    )


@asynccontextmanager
async def players(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    play: Play,
    options: RunOptions,
    hosts: "Hosts | None" = None,
    simulator: OpenSuite | None = None,
) -> AsyncIterator[Sequence[Worker]]:
    """One for each episode that is played at once; `simulator` as for `collect`. ConfigError where a cluster is to
    search in one."""
    made, at_once = options.provenance, models.settings.suite.at_once
    if hosts is not None:
        if simulator is not None:
            raise ConfigError("a cluster searches in the suite itself: leave --cluster or the simulator out")
        opens = partial(_open_there, models.settings, hosts.store, run, play, made)
        from bestofq.rollouts.cluster import HostPlayer

        async with hosts.open_hosts(opens, at_once, store, options.progress) as found:
            yield [HostPlayer(host, store) for host in found]
    else:
        heard = replace(options, on_step=lambda step: options.progress.step(step.decision.usage))
        async with _local(models, suite, store, run, play, heard, simulator) as player:
            yield [player] * at_once


@asynccontextmanager
async def _local(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    play: Play,
    options: RunOptions,
    simulator: OpenSuite | None = None,
) -> AsyncIterator[LocalPlayer]:
    kept = keeping_vectors(models, play.kind, store.vectors) if play.split == "train" else nullcontext()
    searching = play.kind == "mcts"
    with kept:
        async with (
            searching_agent(models, simulator or suite, play.values)
            if searching
            else nullcontext(make_agent(play.kind, models, play.values, n=play.n)) as agent,
            LocalPlayer(suite.make_env, replace(agent, name=play.agent), store, run, options) as player,
        ):
            yield player


@asynccontextmanager
async def _open_there(
    settings: BestOfQSettings, where: Location, run: str, play: Play, provenance: Provenance | None, shared: Shared
) -> AsyncIterator[tuple[Callable[[PlayerSlot], Awaitable[PlayedEpisode]], str]]:
    from bestofq.rollouts.cluster import play_here

    async with opened_there(settings, where, shared) as (models, suite, store):
        options = run_options(models, suite, provenance, Progress())
        heard = replace(options, on_step=lambda step: shared.steps.append(step.decision.usage))
        async with _local(models, suite, store, run, play, heard) as player:
            yield partial(play_here, player, store), store.writer
