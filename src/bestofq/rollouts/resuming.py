"""Continue an episode whose process died, or that was cut: carry out its actions again, without asking a model."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bestofq.core.actions import AskUser
from bestofq.core.decision import Episode, Step, StepResult
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env, SimulatedUser, TakesUser
from bestofq.core.repeating import DivergedError, Unsafe, repeat
from bestofq.core.usage import Usage
from bestofq.store.records import EpisodeKey

if TYPE_CHECKING:
    from bestofq.store.store import Store

_REPLIED = "The user replied: "


def can_go_on(episode: Episode, unsafe: Unsafe | None) -> bool:
    """Whether it has steps, and all of them may be carried out again as far as they tell."""
    steps = episode.steps
    harm = unsafe is not None and any(unsafe(step.observation, step.decision.candidate.action) for step in steps)
    return bool(steps) and not steps[-1].truncated and not harm


async def repeat_steps(env: Env, episode: Episode, unsafe: Unsafe | None) -> StepResult:
    """Carry out the episode's actions again, from the start; the result of the last, or the first page where there is
    none. DivergedError where a page, an element or a reward is another than before, or an action is `unsafe` on the
    page as it is now. What a step brought that was cut is not known, so nothing is compared with it."""
    user = env.simulated_user if isinstance(env, TakesUser) else None
    if isinstance(env, TakesUser) and user is not None:
        env.simulated_user = _Recorded(_replies(episode.steps), user)
    try:
        result = StepResult(observation=await env.reset(episode.task, seed=episode.task.seed))
        for step in episode.steps:
            action, page = step.decision.candidate.action, result.observation
            result = await repeat(env, action, step.observation, page, unsafe)
            ended = result.truncated or (result.terminated and not step.terminated)
            if not step.truncated and (ended or (result.reward or 0.0) != step.reward):
                raise DivergedError(f"step {step.index} brought {step.reward}, and now {result.reward}")
        return result
    finally:
        if isinstance(env, TakesUser):
            env.simulated_user = user


async def claim_orphans(
    store: "Store",
    run: str,
    agent: str,
    wanted: Callable[[EpisodeKey], bool],
    unsafe: Unsafe | None,
    *,
    alone: bool = False,
) -> dict[EpisodeKey, Episode]:
    """What a process that died left running, is `wanted` and can go on, now ours; the rest is marked `interrupted`.
    `alone`: of what is `wanted`, and the rest is left as it is."""
    some = [one.id for one in store.summaries(run=run, agent=agent, status="running") if alone and wanted(one.key)]
    running = await store.take_over(run, agent, only=some if alone else None)
    found: dict[EpisodeKey, Episode] = {}
    for summary in running:
        if wanted(summary.key) and can_go_on(episode := store.episode(summary.id), unsafe):
            found[summary.key] = episode
    kept = {episode.id for episode in found.values()}
    await store.interrupt(run, agent, only=[summary.id for summary in running if summary.id not in kept])
    return found


def with_pictures(steps: Sequence[Step], store: "Store") -> list[Step]:
    """Return the steps with the bytes of their pictures, as an agent sees them. DataError if the store lacks one."""
    return [step.model_copy(update={"observation": with_picture(step.observation, store)}) for step in steps]


def with_picture(page: Observation, store: "Store") -> Observation:
    shot = page.screenshot
    if shot is None or shot.data:
        return page
    return page.model_copy(update={"screenshot": store.screenshots.load(shot)})


def _replies(steps: Sequence[Step]) -> list[str]:
    """What the user said, as far as it was seen."""
    asked = (after for before, after in pairwise(steps) if isinstance(before.decision.candidate.action, AskUser))
    notices = (notice for step in asked for notice in step.observation.notices if notice.startswith(_REPLIED))
    return [notice.removeprefix(_REPLIED) for notice in notices]


class _Recorded:
    """Repeats recorded replies, then replies as another user."""

    def __init__(self, replies: list[str], then: SimulatedUser) -> None:
        self._replies = replies
        self._then = then

    async def reply(self, task: Task, details: str, question: str) -> tuple[str, tuple[Usage, ...]]:
        return (self._replies.pop(0), ()) if self._replies else await self._then.reply(task, details, question)
