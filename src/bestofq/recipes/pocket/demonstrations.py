"""Demonstrations: what the oracle does in states that a fallible visitor reaches, as pairs of prompt and reply.

Only tasks of the train split are walked, in shops whose results are shuffled within each page, so that the place of a
result tells nothing. With chance `noise` the visitor does something else than the oracle says; the oracle's advice is
what is learned in every state, so the model sees how to recover.
"""

import random
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from pydantic import Field

from bestofq.agents.prompting import pick_prompt, propose_prompt
from bestofq.core.actions import Action, Click, Write, action_text
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.noun import Noun
from bestofq.core.observation import Observation, Task
from bestofq.envs.webshop.pages import Item, Results, Shop, Start
from bestofq.envs.webshop.suite import Suite, synthetic_suite
from bestofq.envs.webshop.synthetic import SyntheticConfig
from bestofq.envs.webshop.text import TextEnv
from bestofq.recipes.pocket.oracle import Oracle


class DemonstrationConfig(Noun):
    """How demonstrations are made."""

    catalogue_seeds: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5, 6), description="shops; not the suite's own")
    noise: float = Field(default=0.3, ge=0, le=1, description="chance of a step that is not the oracle's")
    pick_share: float = Field(default=0.2, ge=0, le=1, description="chance that a state also teaches picking")
    easy_share: float = Field(default=0.35, ge=0, le=1, description="chance to keep a start or sub-page state")
    max_steps: int = 12


class Example(NamedTuple):
    """What the model reads and what it should write."""

    prompt: str
    reply: str


async def demonstrate(config: DemonstrationConfig, count: int, seed: int) -> Sequence[Example]:
    """At least `count` examples, in random order."""
    rng = random.Random(f"demonstrations-{seed}")
    suites = [synthetic_suite(SyntheticConfig(seed=s)) for s in config.catalogue_seeds]
    examples: list[Example] = []
    while len(examples) < count:
        suite = rng.choice(suites)
        shop = suite.shop("train", shuffle=rng)
        for task in rng.sample(suite.tasks("train"), 200):
            examples.extend([example async for example in _walk(config, suite, shop, task, rng)])
    rng.shuffle(examples)
    return examples


async def _walk(
    config: DemonstrationConfig, suite: Suite, shop: Shop, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    env = TextEnv(suite, shop=shop)
    oracle = Oracle(suite, suite.goal(task.id), task.split)
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(config.max_steps):
        advice = oracle.advise(shop, env.view, state.observation)
        best = candidate(advice.action, state.observation, advice.thought)
        if isinstance(env.view, Results | Item) or rng.random() < config.easy_share:
            yield Example(propose_prompt(state), f" {advice.thought}\n{action_text(advice.action)}")
            if rng.random() < config.pick_share:
                yield _pick_example(state, best, env, oracle, rng)
        action = _stray(env, oracle, state.observation, rng) if rng.random() < config.noise else advice.action
        result = await env.step(action)
        if result.terminated:
            return
        taken = candidate(action, state.observation)
        state = State(
            task=task,
            decisions=(*state.decisions, Decision(candidates=(taken,), scores=(0.0,), chosen=0)),
            observation=result.observation,
        )


def candidate(action: Action, observation: Observation, thought: str = "") -> Candidate:
    return Candidate(action=action, label=action_text(action, observation.elements), thought=thought)


def _pick_example(state: State, best: Candidate, env: TextEnv, oracle: Oracle, rng: random.Random) -> Example:
    others = {best.label: best}
    for _ in range(8):
        if len(others) < 3:
            stray = candidate(_stray(env, oracle, state.observation, rng, ending=True), state.observation)
            others.setdefault(stray.label, stray)
    listed = rng.sample(list(others.values()), len(others))
    return Example(pick_prompt(state, listed), f" {listed.index(best) + 1}")


def _stray(
    env: TextEnv, oracle: Oracle, observation: Observation, rng: random.Random, *, ending: bool = False
) -> Action:
    """Something plausible but unadvised: another product, another option, a weaker query, a wrong turn."""
    view = env.view
    if isinstance(view, Start):
        words = oracle.query.split()
        kept = [w for w in words if rng.random() < 0.6] or words[-1:]
        return Write(mark=1, text=rng.choice((oracle.type, " ".join(kept), oracle.query)), enter=True)
    links = [e for e in observation.elements if ending or e.name != "Buy Now"]
    if isinstance(view, Results) and rng.random() < 0.8:
        links = [e for e in links if e.name.startswith("$")] or links
    if isinstance(view, Item) and rng.random() < 0.6:
        links = [e for e in links if e.role in ("radio", "button")] or links
    return Click(mark=rng.choice(links).mark)
