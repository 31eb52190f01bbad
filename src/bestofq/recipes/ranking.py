"""How well candidates are ranked, counted against an oracle: the paper's split of failures (4.5, Fig. 3), exactly.

For each stored step: was a right action among the candidates, and was it taken? A diagnostic for dev tasks: nothing
that acts may import it or the oracle.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bestofq.core.actions import Action, Click, GoBack, Write, action_text
from bestofq.core.decision import Decision, Episode
from bestofq.core.errors import DataError
from bestofq.core.observation import Observation
from bestofq.core.protocols import Scorer
from bestofq.envs.webshop.pages import BUY, Bought, Detail, Item, Results, Shop, Start, View
from bestofq.envs.webshop.suite import Suite
from bestofq.envs.webshop.urls import from_url
from bestofq.recipes.parts import Parts
from bestofq.recipes.pocket.miniwob.oracle import SOLVERS, Unsolved, advise
from bestofq.recipes.pocket.oracle import Oracle
from bestofq.rollouts.episode import state_at


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Steps of one kind of page. The shares are of the steps that held a right action."""

    steps: int
    proposed: float  # share of all steps with a right action among the candidates
    chosen: float  # the agent's choice was right
    first: float  # the proposer's first was right
    chance: float  # a uniform choice would have been right
    contested: int  # steps that held right and wrong actions
    contested_chosen: float
    contested_first: float
    contested_chance: float


class OracleStep(NamedTuple):
    """A step whose candidates an oracle has rated."""

    kind: str  # of page or task
    task: tuple[str, str]  # suite and id
    good: tuple[bool, ...]
    chosen: int


def oracle_steps(parts: Parts, episodes: Iterable[Episode]) -> Iterator[OracleStep]:
    """The steps of the settings' suite that its oracle can rate; none where no oracle knows it.

    On MiniWoB++ right is what the oracle advises, by its label. Left out are tasks without a solver and states in which
    it knows nothing to do. Some solvers count past actions, so that after a needless one what they advise can be wrong;
    another right action is counted as wrong.
    """
    match parts.settings.suite.name:
        case "webshop":
            return _webshop(episodes, parts.suite)
        case "miniwob":
            return _miniwob(episodes)
        case "booking" | "webvoyager":
            return iter(())


def _webshop(episodes: Iterable[Episode], suite: Suite) -> Iterator[OracleStep]:
    for episode in episodes:
        shop = suite.shop(episode.task.split)
        oracle = Oracle(suite, suite.goal(episode.task.id))
        for step in episode.steps:
            view = from_url(step.observation.url, shop.catalogue)
            if view is None:
                raise DataError(f"{step.observation.url} of episode {episode.id} is no page of this suite's shop")
            right = [is_right(oracle, shop, view, step.observation, c.action) for c in step.decision.candidates]
            yield _rated(type(view).__name__.lower(), episode, step.decision, right)


def _miniwob(episodes: Iterable[Episode]) -> Iterator[OracleStep]:
    for episode in episodes:
        name = episode.task.id.partition("/")[0]
        if name not in SOLVERS:
            continue
        for index, step in enumerate(episode.steps):
            try:
                advice = advise(state_at(episode.task, episode.steps[:index], step.observation))
            except Unsolved:
                continue
            label = action_text(advice.action, step.observation.elements)
            yield _rated(name, episode, step.decision, [c.label == label for c in step.decision.candidates])


async def rescored(episodes: Iterable[Episode], scorer: Scorer, *, at_once: int = 64) -> list[Episode]:
    """The episodes as if `scorer` had weighed each stored step's candidates: what it would have chosen there.

    No episode is played again, so any number of Q-functions can be ranked on the same steps in seconds.
    """
    gate = asyncio.Semaphore(at_once)

    async def rescore(episode: Episode) -> Episode:
        steps = []
        for index, step in enumerate(episode.steps):
            state = state_at(episode.task, episode.steps[:index], step.observation)
            async with gate:
                scores = await scorer.score(state, step.decision.candidates)
            decision = step.decision.model_copy(
                update={
                    "scores": scores.values,
                    "state_value": scores.state_value,
                    "chosen": int(np.argmax(scores.values)),
                    "explored": False,
                    "scorer": type(scorer).__name__,
                    "checkpoint": scores.checkpoint,
                    "visits": scores.visits,
                    "feedback": scores.feedback,
                }
            )
            steps.append(step.model_copy(update={"decision": decision}))
        return episode.model_copy(update={"steps": tuple(steps)})

    return list(await asyncio.gather(*(rescore(episode) for episode in episodes)))


def is_right(oracle: Oracle, shop: Shop, view: View, observation: Observation, action: Action) -> bool:
    """Whether the action keeps full reward in reach without a detour, as one who knows all would see it."""
    match view, action:
        case Start(), Write(text=text, enter=True):
            return bool(oracle.good_results(shop, Results(query=" ".join(text.split()))))
        case ((Results() | Item() | Detail()), Click(mark=int(mark))):
            name = next((e.name for e in observation.elements if e.mark == mark), "")
            return _right_click(oracle, shop, view, name)
        case Item(product_id=product_id), GoBack():
            return oracle.winner(shop.catalogue[product_id]) is None
        case _:
            return False


def _right_click(oracle: Oracle, shop: Shop, view: View, name: str) -> bool:
    match view:
        case Results():
            good = oracle.good_results(shop, view)
            if good:
                return any(name.endswith(f" {winner.product.name}") for winner in good)
            later = any(oracle.winner(p) for p in shop.results(view.query)[view.page * 10 :])
            return name == ("Next >" if later else "Back to Search")
        case Item(product_id=product_id, chosen=chosen):
            winner = oracle.winner(shop.catalogue[product_id])
            if winner is None:
                return name in ("< Prev", "Back to Search")
            missing = [value for option, value in winner.options if dict(chosen).get(option) != value]
            return name in missing if missing else name.startswith(BUY)
        case Detail():
            return name == "< Prev"
        case Start() | Bought():
            return False


def _rated(kind: str, episode: Episode, decision: Decision, right: Sequence[bool]) -> OracleStep:
    task = (episode.task.suite, episode.task.id)
    return OracleStep(kind=kind, task=task, good=tuple(right), chosen=decision.chosen)


def by_kind(steps: Iterable[OracleStep]) -> Mapping[str, Ranking]:
    """A `Ranking` of each kind of page or task, and of `all`."""
    rows: dict[str, list[tuple[bool, bool, bool, float]]] = defaultdict(list)
    for step in steps:
        row = any(step.good), step.good[step.chosen], step.good[0], sum(step.good) / len(step.good)
        for kind in (step.kind, "all"):
            rows[kind].append(row)
    return {kind: _summary(np.array(values, dtype=np.float64)) for kind, values in sorted(rows.items())}


def _summary(rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> Ranking:
    held = rows[rows[:, 0] == 1]
    contested = held[held[:, 3] < 1]

    def mean(table: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", column: int) -> float:
        return float(table[:, column].mean()) if len(table) else float("nan")

    return Ranking(
        steps=len(rows),
        proposed=float(rows[:, 0].mean()),
        chosen=mean(held, 1),
        first=mean(held, 2),
        chance=mean(held, 3),
        contested=len(contested),
        contested_chosen=mean(contested, 1),
        contested_first=mean(contested, 2),
        contested_chance=mean(contested, 3),
    )
