"""Demonstrations in Agent Q's format (3.1): the oracles of the shop and of the booking site with a plan, thoughts and
explanations.

A policy that is to be improved must fail often and succeed at times. In some cities and with some kinds of product all
walks show the oracle's advice (`familiar`); with the others a share of them does (`skill`), and in the rest somebody
walks who reads nothing. What is best of some candidates is decided by the oracle everywhere.
"""

import random
from collections.abc import AsyncIterator, Callable

from pydantic import Field

from bestofq.agents.dialects.commands import words_before
from bestofq.agents.dialects.composite import composite_prompt
from bestofq.core.actions import Action, Answer, Click, Submit, Write, action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.pages import Detail, Item, Shop, ShopResults, Start, View
from bestofq_sites.webshop.suite import WebShop
from experiments.oracles.advice import Advice
from experiments.oracles.booking import BookingOracle
from experiments.oracles.webshop import Oracle
from experiments.pocket_models.examples import Example, Turn, after, picking
from experiments.pocket_models.visitors import hasty, hasty_guest, stray, stray_guest

SEARCH_FIELD, SEARCH_BUTTON = 1, 2  # marks of the shop's start page
COMMANDS = {
    "click": "CLICK",
    "write": "TYPE",
    "submit": "SUBMIT",
    "clear": "CLEAR",
    "scroll": "SCROLL",
    "goto": "GOTO",
    "ask": "ASK USER HELP",
}
"""Agent Q's name of each command."""
Advise = Callable[[Observation], Advice]


class CompositeDemonstrations(FrozenModel):
    """How demonstrations in Agent Q's format are made."""

    share: float = Field(default=0.0, ge=0, le=1, description="of all examples")
    booking: float = Field(
        default=0.5, ge=0, le=1, description="of these, of the booking site; the others are the shop's"
    )
    booking_seeds: tuple[int, ...] = Field(default=(1, 2, 3), description="booking sites; not the suite's own")
    noise: float = Field(default=0.2, ge=0, le=1, description="chance of a step that is not the oracle's")
    familiar: float = Field(
        default=0.0, ge=0, le=1, description="share of cities and of kinds of product in which all walks do"
    )
    skill: float = Field(default=1.0, ge=0, le=1, description="share of the other walks that show the oracle's advice")
    pick_share: float = Field(default=0.0, ge=0, le=1, description="chance that a state also teaches picking")
    max_steps: int = 24


def walk_shop(
    config: CompositeDemonstrations, suite: WebShop, shop: Shop, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    """One example for each state of one walk through the shop."""
    env, goal = TextEnv(suite, server=shop), suite.goals[task.id]
    oracle, options = Oracle(suite, goal), ", ".join(value for _, value in goal.options)
    plan = "; ".join(["search", "open one that fits", *([f"choose {options}"] if options else []), "buy it"])

    def expert(seen: Observation) -> Advice:
        advice = oracle.advise(shop, env.view, seen)
        action = _typed(seen, advice.action)
        return Advice(advice.thought, action, _explanation(env.view, action, seen))

    def novice(seen: Observation) -> Advice:
        action = hasty(env.view, seen)
        return expert(seen) if action is None else Advice("this one will do", action, "go on")

    def wander(seen: Observation) -> Action:
        return _typed(seen, stray(shop, env.view, oracle, seen, rng))

    return _walk(config, env, task, plan, oracle.type, expert, novice, wander, rng)


def walk_booking(
    config: CompositeDemonstrations, suite: Booking, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    """One example for each state of one walk through the booking site."""
    env, oracle = TextEnv(suite), BookingOracle(suite, task.id)
    there = oracle.restaurant
    plan = f"open {there.name} in {there.city}; set party, date and time; take a table; give the details"

    def expert(seen: Observation) -> Advice:
        advice = oracle.advise(env, seen)
        if isinstance(advice.action, Write) and advice.action.enter:  # TYPE, then SUBMIT
            return advice._replace(action=advice.action.model_copy(update={"enter": False}))
        return advice

    def novice(seen: Observation) -> Advice:
        action = hasty_guest(seen, oracle.goal, there.seatings)
        return expert(seen) if action is None else Advice("this will do", action, "went on")

    return _walk(config, env, task, plan, there.city, expert, novice, lambda seen: stray_guest(seen, rng), rng)


async def _walk(
    config: CompositeDemonstrations,
    env: Env,
    task: Task,
    plan: str,
    topic: str,
    expert: Advise,
    novice: Advise,
    wander: Callable[[Observation], Action],
    rng: random.Random,
) -> AsyncIterator[Example]:
    """The walk of the expert, or of the novice. `topic`: the city, or the kind of product."""
    shows = random.Random(f"known-{topic}").random() < config.familiar or rng.random() < config.skill
    advise = expert if shows else novice
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(config.max_steps):
        best = composed(state, advise(state.observation), plan)
        mark = best.action.mark if isinstance(best.action, Click) else None
        words = words_before(mark, state.observation) if mark is not None else ""
        yield (Turn(composite_prompt(state), composite_reply(best, first=not state.decisions, words=words)),)
        if config.pick_share and rng.random() < config.pick_share:
            right = composed(state, expert(state.observation), plan)
            others = (composed(state, Advice("", wander(state.observation), ""), plan) for _ in range(3))
            listed = list({c.label: c for c in (best, *others, right)}.values())
            if len(listed) > 1:
                rng.shuffle(listed)
                yield picking(state, listed, right)
        taken = best
        if rng.random() < config.noise:
            taken = composed(state, Advice("try this", wander(state.observation), "tried"), plan)
        result = await env.step(taken.action)
        if result.terminated:
            return
        state = after(state, taken, result.observation)


def composed(state: State, advice: Advice, plan: str) -> Candidate:
    """The advice as a composite action."""
    return Candidate(
        action=advice.action,
        label=action_text(advice.action, state.observation.elements),
        plan="" if state.decisions else plan,
        thought=advice.thought,
        explanation=advice.explanation,
        status="continue",
    )


def _typed(observation: Observation, action: Action) -> Action:
    """Writing and pressing Enter are two commands: TYPE, then the search button."""
    if not isinstance(action, Write):
        return action
    if observation.elements[SEARCH_FIELD - 1].value == action.text:
        return Click(mark=SEARCH_BUTTON)
    return Write(mark=action.mark, text=action.text)


def _explanation(view: View | None, action: Action, observation: Observation) -> str:
    match view, action:
        case Start(), Write(text=text):
            return f"type {text}"
        case Start(), Click() | Submit():
            return "look for it"
        case ((ShopResults() | Item() | Detail()), Click(mark=int(mark))):
            name = observation.elements[mark - 1].name
            return f"click {' '.join(name.split()[:4])}"
    return "go on"


def composite_reply(candidate: Candidate, *, first: bool, words: str = "") -> str:
    """The inverse of `parse_composite`: what a model writes after the prompt. `words` go before a click's mark."""
    plan = f" {candidate.plan}\nTHOUGHT:" if first else ""
    command = "NONE" if isinstance(candidate.action, Answer) else command_text(candidate.action)
    if words and isinstance(candidate.action, Click):
        command = command.replace("[", f"{words} [")
    return (
        f"{plan} {candidate.thought}\nCOMMANDS: {command}\nEXPLANATION: {candidate.explanation}\n"
        f"STATUS: {candidate.status.upper()}"
    )


def command_text(action: Action) -> str:
    """The command of an action on a mark. ValueError for an action that Agent Q has no command for."""
    name, _, rest = action_text(action).partition(" ")
    if name not in COMMANDS or (isinstance(action, Write) and action.enter):
        raise ValueError(f"Agent Q has no command for {action_text(action)!r}")
    return f"{COMMANDS[name]} {rest.upper() if name == 'scroll' else rest}"
