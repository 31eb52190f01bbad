"""Demonstrations in Agent Q's format (3.1): the shop's oracle with a plan, thoughts and explanations.

A policy that is to be improved must fail often and succeed at times: `skill` is the share of the walks in which the
oracle's advice is shown; in the others a visitor who takes the first thing he sees is.
"""

import random
from collections.abc import AsyncIterator

from pydantic import Field

from bestofq.agents.composite import composite_prompt, composite_reply
from bestofq.core.actions import Action, Click, Write, action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.noun import Noun
from bestofq.core.observation import Observation, Task
from bestofq.envs.webshop.pages import Detail, Item, Results, Shop, Start, View
from bestofq.envs.webshop.products import Goal
from bestofq.envs.webshop.suite import Suite
from bestofq.envs.webshop.text import TextEnv
from bestofq.recipes.pocket.examples import Example, Turn, after
from bestofq.recipes.pocket.oracle import Advice, Oracle
from bestofq.recipes.pocket.visitors import hasty, stray

SEARCH_FIELD, SEARCH_BUTTON = 1, 2  # marks of the start page


class CompositeDemonstrations(Noun):
    """How demonstrations in Agent Q's format are made."""

    share: float = Field(default=0.0, ge=0, le=1, description="of all examples")
    noise: float = Field(default=0.2, ge=0, le=1, description="chance of a step that is not the oracle's")
    skill: float = Field(default=1.0, ge=0, le=1, description="share of walks that show the oracle's advice")
    max_steps: int = 14


async def walk_composite(
    config: CompositeDemonstrations, suite: Suite, shop: Shop, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    """One example for each state of one walk."""
    env = TextEnv(suite, shop=shop)
    goal = suite.goal(task.id)
    oracle = Oracle(suite, goal)
    skilled = rng.random() < config.skill
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(config.max_steps):
        advice = oracle.advise(shop, env.view, state.observation)
        if not skilled:
            advice = Advice("this one will do", hasty(env.view, state.observation) or advice.action)
        best = composed(state, env.view, goal, advice)
        yield (Turn(composite_prompt(state), composite_reply(best, first=not state.decisions)),)
        taken = best
        if rng.random() < config.noise:
            other = Advice("try this", stray(shop, env, oracle, state.observation, rng))
            taken = composed(state, env.view, goal, other)
        result = await env.step(taken.action)
        if result.terminated:
            return
        state = after(state, taken, result.observation)


def composed(state: State, view: View, goal: Goal, advice: Advice) -> Candidate:
    """The advice as a composite action."""
    action = _typed(state.observation, advice.action)
    return Candidate(
        action=action,
        label=action_text(action, state.observation.elements),
        plan="" if state.decisions else plan_of(goal),
        thought=advice.thought,
        explanation=_explanation(view, action, state.observation),
        status="continue",
    )


def plan_of(goal: Goal) -> str:
    """What the instruction asks for, as steps; nothing that it does not say."""
    options = ", ".join(value for _, value in goal.options)
    return "; ".join(("search", "open one that fits", *([f"choose {options}"] if options else []), "buy it"))


def _typed(observation: Observation, action: Action) -> Action:
    """Writing and pressing Enter are two commands: TYPE, then the search button."""
    if not isinstance(action, Write):
        return action
    if observation.elements[SEARCH_FIELD - 1].value == action.text:
        return Click(mark=SEARCH_BUTTON)
    return Write(mark=action.mark, text=action.text)


def _explanation(view: View, action: Action, observation: Observation) -> str:
    match view, action:
        case Start(), Write(text=text):
            return f"type {text}"
        case Start(), Click():
            return "look for it"
        case (Results(), Click(mark=int(mark))) | (Item(), Click(mark=int(mark))) | (Detail(), Click(mark=int(mark))):
            name = observation.elements[mark - 1].name
            return f"click {' '.join(name.split()[:4])}"
    return "go on"
