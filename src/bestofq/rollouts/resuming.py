"""Continue an episode whose process died, or that was cut: carry out its actions again, without asking a model."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bestofq.core.actions import AskUser
from bestofq.core.decision import Episode, StepResult
from bestofq.core.observation import Observation
from bestofq.core.protocols import Env
from bestofq.core.repeating import DivergedError, Unsafe, repeat
from bestofq.store.records import EpisodeKey

if TYPE_CHECKING:
    from bestofq.store.store import Store


def can_go_on(episode: Episode, unsafe: Unsafe | None) -> bool:
    """Whether it has steps, and all of them may be carried out again as far as they tell."""
    steps = episode.steps
    harm = unsafe is not None and any(unsafe(step.observation, step.decision.candidate.action) for step in steps)
    return bool(steps) and not steps[-1].truncated and not harm


async def repeat_steps(env: Env, episode: Episode, unsafe: Unsafe | None) -> StepResult:
    """Carry out the episode's actions again, from the start; the result of the last, or the first page where there is
    none. DivergedError where a page, an element or a reward is another than before, or an action is `unsafe` on the
    page as it is now. What a step brought that was cut is not known, so nothing is compared with it. A user whose reply
    is stored is not asked again."""
    result = StepResult(observation=await env.reset(episode.task, seed=episode.task.seed))
    for step in episode.steps:
        action, page = step.decision.candidate.action, result.observation
        if isinstance(action, AskUser) and step is not episode.steps[-1]:
            continue
        result = await repeat(env, action, step.observation, page, unsafe)
        ended = result.truncated or (result.terminated and not step.terminated)
        if not step.truncated and (ended or (result.reward or 0.0) != step.reward):
            raise DivergedError(f"step {step.index} brought {step.reward}, and now {result.reward}")
    return result


async def claim_orphans(
    store: "Store", run: str, agent: str, wanted: Callable[[EpisodeKey], bool], unsafe: Unsafe | None
) -> dict[EpisodeKey, Episode]:
    """Take over what a dead process left running and is `wanted`. Return what can go on; the rest is `interrupted`."""
    ids = [one.id for one in store.summaries(run=run, agent=agent, status="running") if wanted(one.key)]
    found: dict[EpisodeKey, Episode] = {}
    for summary in await store.take_over(run, agent, only=ids):
        if can_go_on(episode := store.episode(summary.id), unsafe):
            found[summary.key] = episode
        else:
            await store.interrupt(run, agent, only=[summary.id])
    return found


def with_pictures(episode: Episode, store: "Store") -> Episode:
    """Return the episode with the bytes of its pictures, as an agent sees them. DataError if the store lacks one."""

    def load(page: Observation) -> Observation:
        shot = page.screenshot
        return page.model_copy(update={"screenshot": store.screenshots.load(shot)}) if shot and not shot.data else page

    steps = tuple(step.model_copy(update={"observation": load(step.observation)}) for step in episode.steps)
    return episode.model_copy(update={"steps": steps, "final": episode.final and load(episode.final)})
