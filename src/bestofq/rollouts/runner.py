"""Many episodes at once in one event loop. The same call again continues where the last one ended, however it ended."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from bestofq.agents.agent import Agent
from bestofq.core.decision import Episode, Verdict
from bestofq.core.errors import InfraError, InputError, SupersededError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.progress import Progress
from bestofq.rollouts.resuming import claim_orphans
from bestofq.rollouts.workers import SHARED, LostError, Worker, work_off
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

log = logging.getLogger(__name__)
LOST_AT_MOST = 10  # times that a process dies while it plays one episode: then the episode is to blame


@dataclass(frozen=True, kw_only=True)
class RunOptions(EpisodeOptions):
    """How the episodes of a run are played. `on_step` is the progress's."""

    retries: int = 1  # of an episode that the infrastructure cut
    give_up_after: int = 20  # cuts in a row
    progress: Progress = field(default_factory=Progress)


DEFAULTS = RunOptions()


@dataclass(frozen=True)
class EpisodeSlot:
    task: Task
    repeat: int
    retries: int = 0  # left, if the infrastructure cuts it
    begun: Episode | None = None  # to continue with: running in the store, and nobody plays it
    lost: int = 0  # times that its process died

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.task.suite, self.task.id, self.repeat)


Played = tuple[Verdict, Episode | None]
"""How a slot ended, and the episode if it was cut and can continue."""
Play = Callable[[EpisodeSlot], Awaitable[Played]]


async def run_many(
    tasks: Sequence[Task],
    make_env: EnvFactory,
    agent: Agent,
    *,
    store: Store,
    run: str,
    repeats: int = 1,
    concurrency: int = 16,
    options: RunOptions = DEFAULTS,
) -> list[EpisodeSummary]:
    """Run each task `repeats` times, `concurrency` episodes at once, in a run that was begun.

    Nothing is done again that this agent has finished in this run, or that another living process is playing. An
    episode whose process died continues from its last step if none of its actions is `options.irreversible`, and they
    lead to the same pages. Otherwise it stays readable as `interrupted`, and another begins.

    An episode that the infrastructure cut continues in a new environment, up to `options.retries` times, with the
    decision that it was cut in. If it cannot, it stays readable as `cut`. After `options.give_up_after` cuts in a row
    the run ends with InfraError.

    Returns the finished episodes of these tasks, of this call and of earlier ones, in the order of `Store.episodes`.
    """
    if concurrency < 1:
        raise InputError(f"concurrency is {concurrency}: it must be at least 1")
    each = replace(options, on_step=lambda step: options.progress.step(step.decision.usage))
    async with open_player(make_env, agent, store, run, each) as play:
        workers = [Worker(play)] * concurrency
        return await play_all(tasks, workers, store=store, run=run, agent=agent.name, repeats=repeats, options=options)


@asynccontextmanager
async def open_player(
    make_env: EnvFactory, agent: Agent, store: Store, run: str, options: EpisodeOptions
) -> AsyncIterator[Play]:
    """Yield what plays a slot in this process. Each episode at once has an environment of its own."""
    every: list[Env] = []
    free: list[Env] = []

    async def play(slot: EpisodeSlot) -> Played:
        """Errors as `record_episode`; SupersededError if another process plays the slot."""
        begun = slot.begun
        if begun is not None and not await store.take_over(run, agent.name, only=[begun.id]):
            begun = None  # `begin_episode` says who has it
        if free:
            env = free.pop()
        else:
            every.append(env := await make_env())
        own = replace(options, go_on_when_cut=slot.retries > 0)
        try:
            episode = await record_episode(
                agent, env, slot.task, store=store, run=run, repeat=slot.repeat, options=own, begun=begun
            )
        finally:
            free.append(env)
        if episode.verdict.outcome != "infra_error":
            return episode.verdict, None
        for some in (free, every):
            some.remove(env)
        await _close(env)
        if not own.go_on_when_cut:
            return episode.verdict, None
        await store.release(episode.id)
        return episode.verdict, episode

    try:
        yield play
    finally:
        for env in every:
            await _close(env)


async def _close(env: Env) -> None:
    """Close an environment. A failure is only logged: its episodes have ended."""
    try:
        await env.close()
    except InfraError as error:
        log.warning("an environment could not be closed: %s", error)


async def play_all(
    tasks: Sequence[Task],
    workers: Sequence[Worker],
    *,
    store: Store,
    run: str,
    agent: str,
    repeats: int = 1,
    options: RunOptions = DEFAULTS,
) -> list[EpisodeSummary]:
    """Do as `run_many`. Each of `workers` plays one slot at a time (`open_player`), here or on a cluster.

    If a process dies, its episodes continue elsewhere. InfraError if that happens `LOST_AT_MOST` times to one.
    """
    if repeats < 1:
        raise InputError(f"repeats is {repeats}: it must be at least 1")
    if len({(task.suite, task.id) for task in tasks}) != len(tasks):
        raise InputError(f"of {len(tasks)} tasks some share suite and id: give each an id of its own")
    progress = options.progress
    wanted = {EpisodeKey(task.suite, task.id, repeat): task for repeat in range(repeats) for task in tasks}
    todo: asyncio.Queue[EpisodeSlot] = asyncio.Queue()
    tried: set[EpisodeKey] = set()

    def load_summaries() -> list[EpisodeSummary]:
        return [summary for summary in store.summaries(run=run, agent=agent) if summary.key in wanted]

    async def plan() -> bool:
        """Queue what nobody has played or plays. Return whether another process plays some of the rest."""
        rest = wanted.keys() - store.load_finished_keys(run, agent) - tried
        left = await claim_orphans(store, run, agent, rest.__contains__, options.irreversible)
        elsewhere = {one.key for one in store.summaries(run=run, agent=agent, status="running")} - left.keys()
        chosen = [key for key in wanted if key in rest - elsewhere]
        for key in chosen:
            todo.put_nowait(EpisodeSlot(wanted[key], key.repeat, options.retries, left.get(key)))
        tried.update(chosen)
        return not rest.isdisjoint(elsewhere)

    shared = await plan()
    progress.begin(load_summaries(), len(wanted))
    cuts = 0  # in a row

    async def play(worker: Worker, slot: EpisodeSlot) -> None:
        nonlocal cuts
        if slot.begun is not None:
            await store.release(slot.begun.id)  # to the process that plays it
        try:
            played: Played = await worker.do(slot)
        except SupersededError as error:
            log.warning("left to another process: %s", error)
            tried.discard(slot.key)
            return
        except LostError as error:
            if slot.lost + 1 == LOST_AT_MOST:
                raise InfraError(
                    f"{slot.task.id}: {LOST_AT_MOST} processes died that played it, the last by {error}: fix that, "
                    "then run the same command again: it continues from here"
                ) from error
            log.info("%s is played again: %s", slot.task.id, error)
            found = await claim_orphans(store, run, agent, {slot.key}.__contains__, options.irreversible)
            todo.put_nowait(replace(slot, begun=found.get(slot.key), lost=slot.lost + 1))
            return
        verdict, left = played
        if (cut := verdict.outcome == "infra_error") and slot.retries > 0:
            log.info("%s was cut, and is tried again: %s", slot.task.id, verdict.reason)
            todo.put_nowait(replace(slot, begun=left, retries=slot.retries - 1))
        progress.episode(verdict)
        cuts = cuts + 1 if cut else 0
        if cuts >= options.give_up_after:
            raise InfraError(
                f"{cuts} episodes in a row were cut off, the last by {verdict.reason!r}: "
                "fix that, then run the same command again: it continues from here"
            )

    async def more() -> bool:
        nonlocal shared
        if not shared and not wanted.keys() - tried - store.load_finished_keys(run, agent):
            return False
        await asyncio.sleep(SHARED)
        shared = await plan()
        return True

    await work_off(todo, workers, play, more)
    return load_summaries()
