"""Many episodes at once in one event loop; the same call again continues where the last one ended, however it ended."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bestofq.agents.agent import Agent
from bestofq.core.concurrency import run_all
from bestofq.core.errors import InfraError, InputError, SupersededError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.rollouts.episode import EpisodeOptions, run_episode
from bestofq.rollouts.progress import Progress
from bestofq.rollouts.resuming import left_running
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunOptions(EpisodeOptions):
    """How the episodes of a run are played. `on_step` is the progress's."""

    retries: int = 1  # of an episode that the infrastructure cut
    give_up_after: int = 20  # cuts in a row
    progress: Progress = field(default_factory=Progress)


DEFAULTS = RunOptions()


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

    What this agent has finished in this run is not done again, nor what another living process is playing (in a store
    that several may write). What was running when a process died goes on from its
    last step where its actions may be carried out again (`options.may_repeat`) and lead to the same pages; else it
    stays readable as `interrupted`, and is done again from its start. An episode cut by the infrastructure goes on
    likewise, `options.retries` more times, in a new environment, with the decision that it was cut in; where it cannot,
    it stays readable as `cut`. After `options.give_up_after` cuts in a row the run ends with InfraError.

    Returns the finished episodes of these tasks, of this call and of earlier ones, in the order of `Store.episodes`.
    """
    if repeats < 1 or concurrency < 1:
        raise InputError(f"repeats is {repeats} and concurrency {concurrency}: both must be at least 1")
    if len({(task.suite, task.id) for task in tasks}) != len(tasks):
        raise InputError(f"of {len(tasks)} tasks some share suite and id: give each an id of its own")
    progress = options.progress
    each = replace(options, on_step=progress.step)
    wanted = {EpisodeKey(task.suite, task.id, repeat): task for repeat in range(repeats) for task in tasks}
    done = store.finished(run, agent.name)
    left = await left_running(store, run, agent.name, (wanted.keys() - done).__contains__, options.may_repeat)

    def finished() -> list[EpisodeSummary]:
        return [summary for summary in store.summaries(run=run, agent=agent.name) if summary.key in wanted]

    elsewhere = {one.key for one in store.summaries(run=run, agent=agent.name, status="running")} - left.keys()
    todo = deque((task, key.repeat, options.retries) for key, task in wanted.items() if key not in done | elsewhere)
    progress.begin(finished(), len(wanted))
    cuts = 0  # in a row

    async def work() -> None:
        nonlocal cuts
        env: Env | None = None
        try:
            while todo:
                task, repeat, attempts_left = todo.popleft()
                env = env or await make_env()
                key, chosen = EpisodeKey(task.suite, task.id, repeat), replace(each, go_on_when_cut=attempts_left > 0)
                begun = left.pop(key, None)
                try:
                    episode = await run_episode(
                        env, agent, task, store=store, run=run, repeat=repeat, options=chosen, begun=begun
                    )
                except SupersededError as error:
                    log.warning("left to another process: %s", error)
                    continue
                if cut := episode.verdict.outcome == "infra_error":
                    broken, env = env, None
                    await _close_broken(broken)
                    if attempts_left > 0:
                        log.info("%s was cut, and is tried again: %s", task.id, episode.verdict.reason)
                        todo.append((task, repeat, attempts_left - 1))
                        if options.may_repeat is not None:
                            left[key] = episode
                progress.episode(episode)
                cuts = cuts + 1 if cut else 0
                if cuts >= options.give_up_after:
                    raise InfraError(
                        f"{cuts} episodes in a row were cut off, the last by {episode.verdict.reason!r}: "
                        "fix that, then run the same command again: it continues from here"
                    )
        finally:
            if env is not None:
                await env.close()

    await run_all(work() for _ in range(min(concurrency, len(todo))))
    return finished()


async def _close_broken(env: Env) -> None:
    """Close an environment that has just failed; that it fails again in closing is no news."""
    try:
        await env.close()
    except InfraError as error:
        log.warning("an environment that had failed could not be closed either: %s", error)
