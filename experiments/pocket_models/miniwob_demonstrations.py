"""Demonstrations of MiniWoB++: what the oracle does in states that a fallible visitor reaches, in a real Chromium.

Only instances of the train split are played, none of the held-out families, and from seeds far behind those on which
episodes are collected: what a Q-function learns from should not be what the model knows by heart. With chance `noise`
the visitor does something else than advised; the advice is what is learned. After something else it is learned only
where the episode went on to earn its reward, for some solvers count their own past actions.

Each episode draws from its own random numbers, so that the examples do not depend on how many are played at once.
"""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence

from pydantic import Field

from bestofq.agents.dialects.commands import parse_action
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Action, Click, Targeted, Write, action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import InfraError, InputError, ReplyError
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Element, Task
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import SEEDS, MiniWob
from experiments.oracles.advice import Advice
from experiments.oracles.miniwob.solvers import SOLVERS, advise
from experiments.oracles.miniwob.view import FIELDS, Unsolved
from experiments.pocket_models.examples import (
    Example,
    after,
    candidate,
    picking,
    proposing,
    reviewing,
    some_candidates,
)
from experiments.pocket_models.miniwob_reviews import review

FIRST_SEED = SEEDS["train"][len(SEEDS["train"]) // 2]
AT_ONCE = 4

log = logging.getLogger(__name__)


class MiniWobDemonstrations(FrozenModel):
    """How MiniWoB++ is demonstrated."""

    share: float = Field(default=0, ge=0, lt=1, description="of all examples; 0: none, as the model that ships")
    instances: int = Field(default=200, ge=1, description="played of each task")
    names: tuple[str, ...] = Field(default=(), description="tasks. Default: all with a solver that are not held out")
    noise: float = Field(default=0.3, ge=0, le=1, description="chance of a step that is not the oracle's")
    pick_share: float = Field(default=0.3, ge=0, le=1, description="chance that a state also teaches picking")
    review_share: float = Field(default=0.5, ge=0, le=1, description="chance that it also teaches reviewing")
    reviews: int = Field(default=4, ge=1, description="candidates reviewed after one state, at most")
    max_steps: int = Field(default=16, ge=1, description="steps of one episode")


async def demonstrate_miniwob(config: MiniWobDemonstrations, seed: int, *, at_once: int = AT_ONCE) -> list[Example]:
    """All examples, in the order of tasks.

    Raises SetupError when the package or Chromium is missing, InputError for a name that is not to be learned.
    """
    suite = MiniWob(MiniWobSettings())
    wanted = list(_instances(config, suite))
    left, found = iter(wanted), dict[Instance, list[Example]]()
    async with suite.open(), asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(_play(config, seed, suite, left, found))
    return [example for instance in wanted for example in found.get(instance, ())]


Instance = tuple[str, int]
"""A task's name and the seed of its problem."""


def _instances(config: MiniWobDemonstrations, suite: MiniWob) -> Iterator[Instance]:
    """One of each task before the second of any."""
    learned = [name for name in suite.names("train") if name in SOLVERS]
    if unknown := sorted(set(config.names) - set(learned)):
        raise InputError(f"{', '.join(unknown)}: no MiniWoB++ task with a solver that training may see")
    for seed in range(FIRST_SEED, FIRST_SEED + config.instances):
        for name in config.names or learned:
            yield name, seed


async def _play(
    config: MiniWobDemonstrations,
    seed: int,
    suite: MiniWob,
    left: Iterator[Instance],
    found: dict[Instance, list[Example]],
) -> None:
    """Play one page after another of those left. What the browser breaks is left out."""
    assert suite.browser is not None
    env, reader = MiniWobEnv(suite.root, suite.browser), BrowserSession(suite.browser)
    try:
        for name, number in left:
            rng = random.Random(f"demonstrations-{seed}-{name}/{number}")
            try:
                found[name, number] = await _walk(config, env, await suite.task(reader, name, number, "train"), rng)
            except InfraError as error:
                log.warning("%s/%d is not demonstrated: %s", name, number, error)
    finally:
        await env.close()
        await reader.close()


async def _walk(config: MiniWobDemonstrations, env: MiniWobEnv, task: Task, rng: random.Random) -> list[Example]:
    """The examples of one episode."""
    state = State(task=task, observation=await env.reset(task, seed=0))
    sound: list[Example] = []  # in states that the oracle's own actions led to
    others: list[Example] = []  # in states after something else
    strayed, reward = False, 0.0
    for _ in range(config.max_steps):
        try:
            advice = advise(state)
        except Unsolved:
            break
        if _can_be_said(advice):
            (others if strayed else sound).extend(_examples(config, state, advice, rng))
        action = advice.action
        if rng.random() < config.noise and (stray := _stray(state, advice.action, rng)) is not None:
            action, strayed = stray, True
        result = await env.step(action)
        if result.terminated:
            reward = result.reward or 0.0
            break
        state = after(state, candidate(action, state.observation), result.observation)
    if reward == 1:
        return sound + others
    return sound if strayed else []


def _can_be_said(advice: Advice) -> bool:
    """Not where a text has several lines."""
    try:
        return parse_action(action_text(advice.action)) == advice.action and "\n" not in advice.thought
    except ReplyError:
        return False


def _examples(config: MiniWobDemonstrations, state: State, advice: Advice, rng: random.Random) -> Iterator[Example]:
    best = candidate(advice.action, state.observation, advice.thought)
    yield proposing(state, best)

    def some(known: Sequence[Candidate], count: int) -> list[Candidate]:
        return some_candidates(
            known, state.observation, lambda: _stray(state, best.action, rng, ending=True), rng, count=count
        )

    if rng.random() < config.pick_share:
        listed = some([best], 3)
        if len(listed) > 1:
            yield picking(state, listed, best)
    if rng.random() < config.review_share:
        listed = some([best, *_telling(state, rng)], config.reviews)
        yield reviewing(state, [(c, review(state, c)) for c in listed[: config.reviews]])


def _telling(state: State, rng: random.Random) -> list[Candidate]:
    """Candidates that reviews go wrong on: Submit before all is done, and what was done before."""
    done = {decision.candidate.label for decision in state.decisions}
    clicks = [candidate(Click(mark=e.mark), state.observation) for e in state.observation.elements]
    ends = [c for c in clicks if c.label == "click button Submit"]
    again = [c for c in clicks if c.label in done]
    return ends[:1] + rng.sample(again, min(1, len(again)))


def _stray(state: State, advised: Action, rng: random.Random, *, ending: bool = False) -> Action | None:
    """Something plausible but unadvised: another element of the same role, a wrong text, a field's neighbour; with
    `ending`, Submit too. None where the page has nothing else."""
    marked = advised.mark if isinstance(advised, Targeted) else None
    others = [e for e in state.observation.elements if e.mark != marked and (ending or e.name != "Submit")]
    own = next((e for e in state.observation.elements if e.mark == marked), None)
    if isinstance(advised, Write):
        return _other_writing(state, advised, others, rng)
    alike = [e for e in others if own is not None and e.role == own.role]
    chosen = alike if alike and rng.random() < 0.8 else others
    return Click(mark=rng.choice(chosen).mark) if chosen else None


def _other_writing(state: State, advised: Write, others: Sequence[Element], rng: random.Random) -> Action | None:
    """Another word of the goal, the text in another field, or a click elsewhere."""
    fields = [e for e in others if e.role in FIELDS]
    words = [w for w in (w.strip('".,:;?') for w in state.task.goal.split()) if w and w != advised.text]
    actions: list[Action] = [advised.model_copy(update={"text": rng.choice(words)})]
    if fields:
        actions.append(advised.model_copy(update={"mark": rng.choice(fields).mark}))
    if others:
        actions.append(Click(mark=rng.choice(others).mark))
    return rng.choice(actions)
