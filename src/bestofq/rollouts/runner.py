"""Many episodes at once in one event loop. The same call again continues where the last one ended, however it ended."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.agent import Agent
from bestofq.core.concurrency import work_off
from bestofq.core.decision import Episode
from bestofq.core.errors import InfraError, InputError, SupersededError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.progress import Progress
from bestofq.rollouts.resuming import claim_orphans
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

log = logging.getLogger(__name__)
POLL_SECONDS = 2.0  # between looks at what another process plays or searches


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
    begun: Episode | None = None  # to continue with: it is running in the store, and this process's own

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.task.suite, self.task.id, self.repeat)


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
    for name, number in {"concurrency": concurrency, "repeats": repeats}.items():
        if number < 1:
            raise InputError(f"{name} is {number}: it must be at least 1")
    if len({(task.suite, task.id) for task in tasks}) != len(tasks):
        raise InputError(f"of {len(tasks)} tasks some share suite and id: give each an id of its own")
    progress = options.progress
    wanted = {EpisodeKey(task.suite, task.id, repeat): task for repeat in range(repeats) for task in tasks}
    todo: deque[EpisodeSlot] = deque()
    tried: set[EpisodeKey] = set()
    free: list[Env] = []  # environments that play no episode
    cuts = 0  # in a row

    def load_summaries() -> list[EpisodeSummary]:
        return [summary for summary in store.summaries(run=run, agent=agent.name) if summary.key in wanted]

    def find_rest() -> set[EpisodeKey]:
        """Return what is not finished and was not tried here: other processes play it, or nobody."""
        return wanted.keys() - tried - store.load_finished_keys(run, agent.name)

    async def queue_free_slots() -> None:
        """Queue what nobody has played or plays."""
        rest = find_rest()
        left = await claim_orphans(store, run, agent.name, rest.__contains__, options.irreversible)
        rest -= {one.key for one in store.summaries(run=run, agent=agent.name, status="running")} - left.keys()
        todo.extend(
            EpisodeSlot(wanted[key], key.repeat, options.retries, left.get(key)) for key in wanted if key in rest
        )
        tried.update(rest)

    async def play(slot: EpisodeSlot) -> None:
        nonlocal cuts
        env = free.pop() if free else await make_env()
        own = replace(options, go_on_when_cut=slot.retries > 0, on_step=progress.step)
        try:
            episode = await record_episode(
                agent, env, slot.task, store=store, run=run, repeat=slot.repeat, options=own, begun=slot.begun
            )
        except SupersededError as error:
            log.warning("left to another process: %s", error)
            tried.discard(slot.key)
            return
        finally:
            free.append(env)
        verdict = episode.verdict
        if cut := verdict.outcome == "infra_error":
            free.remove(env)
            await _close(env)
            if slot.retries > 0:
                log.info("%s was cut, and is tried again: %s", slot.task.id, verdict.reason)
                todo.append(replace(slot, begun=episode, retries=slot.retries - 1))
        progress.episode(verdict)
        cuts = cuts + 1 if cut else 0
        if cuts >= options.give_up_after:
            raise InfraError(
                f"{cuts} episodes in a row were cut off, the last by {verdict.reason!r}: "
                "fix that, then run the same command again: it continues from here"
            )

    await queue_free_slots()
    progress.begin(load_summaries(), len(wanted))
    try:
        await work_off(todo, play, concurrency)
        while find_rest():
            await asyncio.sleep(POLL_SECONDS)
            await queue_free_slots()
            await work_off(todo, play, concurrency)
    finally:
        for env in free:
            await _close(env)
    return load_summaries()


async def _close(env: Env) -> None:
    """Close an environment. A failure is only logged: its episodes have ended."""
    try:
        await env.close()
    except InfraError as error:
        log.warning("an environment could not be closed: %s", error)
