"""Demonstrations on ordinary sites of `envs/quirks`: none of them has a quirk, so that every way is as good as the
other and each is shown as often. What a quirk is, no demonstration tells."""

import random
from collections.abc import AsyncIterator
from functools import partial

from pydantic import Field

from bestofq.core.actions import Action, Click, Write
from bestofq.core.decision import Candidate, State
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation, Task
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.suite import Quirks, QuirksVisit
from experiments.oracles.quirks import QuirksOracle
from experiments.pocket_models.examples import (
    Example,
    after,
    candidate,
    picking,
    proposing,
    reviewing,
    some_candidates,
    verdict,
)


class QuirksDemonstrations(FrozenModel):
    """How they are made."""

    share: float = Field(default=0.0, ge=0, le=1, description="of all examples")
    seeds: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5, 6, 7, 8), description="of sites; not the suite's own")
    noise: float = Field(default=0.2, ge=0, le=1, description="chance of a step that is not the oracle's")
    pick_share: float = Field(default=0.2, ge=0, le=1, description="chance that a state also teaches picking")
    review_share: float = Field(default=0.3, ge=0, le=1, description="chance that it also teaches reviewing")
    max_steps: int = 14


async def walk_quirks(config: QuirksDemonstrations, rng: random.Random, *, named: bool) -> AsyncIterator[Example]:
    """The examples of one walk on an ordinary site."""
    suite = Quirks(QuirksSettings(seed=rng.choice(config.seeds), sites=16, quirky=0))
    task = rng.choice(suite.tasks("train"))
    env: TextEnv[QuirksVisit, QuirksVisit] = TextEnv(suite)
    oracle = QuirksOracle(suite, task, knows=False)
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(config.max_steps):
        seen = state.observation
        advice = oracle.advise(env.visit, seen, rng)
        best = candidate(advice.action, seen, advice.thought)
        yield proposing(state, best, named=named)
        stray = partial(_stray, env.visit, suite, task, seen, rng)
        if rng.random() < config.pick_share:
            yield picking(state, some_candidates([best], seen, stray, rng, count=3), best)
        if rng.random() < config.review_share:
            listed = some_candidates([best], seen, stray, rng, count=3)
            yield reviewing(state, [(c, _review(env.visit, suite, task, seen, c)) for c in listed])
        taken = stray() if rng.random() < config.noise else advice.action
        result = await env.step(taken)
        if result.terminated:
            return
        state = after(state, candidate(taken, seen), result.observation)


def _stray(visit: QuirksVisit, suite: Quirks, task: Task, seen: Observation, rng: random.Random) -> Action:
    """Any button, or another search."""
    buttons = [e.mark for e in seen.elements if e.role == "button" and e.name != "Search"]
    if buttons:
        return Click(mark=rng.choice(buttons))
    words = rng.choice(visit.site.kind.items if rng.random() < 0.3 else [suite.goals[task.id].item]).lower().split()
    return Write(mark=seen.elements[0].mark, text=rng.choice((" ".join(words), words[-1], words[0])), enter=True)


def _review(visit: QuirksVisit, suite: Quirks, task: Task, seen: Observation, of: Candidate) -> str:
    """What can be read: whether an item or a value is the goal's. Of the ways there is nothing to say."""
    goal, stage = suite.goals[task.id], visit.site.kind.stages[visit.stage]
    mark = of.action.mark if isinstance(of.action, Click) else None
    name = seen.elements[mark - 1].name if mark is not None else ""
    wanted = {"items": goal.item, "values": goal.value}.get(stage.kind)
    if wanted is None or name not in (*visit.found, *visit.site.kind.values):
        return "moves on"
    return verdict([(name, name == wanted)])
