"""Scorers between harmful and right in the text shop, judged by an exploring agent's logs and then played.

No model: the proposer draws actions of the page, right ones more often than not; a scorer's number is `strength` where
the oracle finds an action right, and noise that stays the same for an action on a page. So many can be played.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.commands import parse_reply
from bestofq.agents.selectors import EpsilonGreedySelector
from bestofq.core.decision import DECIDED, Candidate, Episode, Scores, State, state_at
from bestofq.core.logged import LoggedChoices
from bestofq.core.usage import Usage
from bestofq.envs.suites import make_suite
from bestofq.learning.memory import Memory
from bestofq.recipes.api import play
from bestofq.recipes.estimate import Logs, rank_logs
from bestofq.reports.stats import attempts_of
from bestofq.store.store import Store
from bestofq.testing import ScriptedProposer
from bestofq_sites.webshop.settings import WebShopSettings
from experiments.estimating import Judged, judge
from experiments.ranking import judge_of

STRENGTHS = (-3.0, -1.5, -0.7, -0.3, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.5, 5.0)
EPSILON, N, RIGHT, STEPS = 0.5, 3, 0.7, 6
"""Of the logs; how often the proposer draws what is right; and the steps an episode may take."""
SUITE: Any = make_suite(WebShopSettings())
SUITE.step_limit = STEPS
JUDGE = judge_of(SUITE)
FOLDER = Path("runs/estimate-noisy")
TASKS, LOGGED = 200, 4  # and how often the exploring agent plays them
_RIGHT: dict[tuple[str, str, str], bool] = {}


def right(state: State, candidates: Sequence[Candidate]) -> list[bool]:
    found = []
    for one in candidates:
        key = (state.task.id, state.observation.text, one.label)
        if key not in _RIGHT:
            judged = JUDGE(state, [one]) if JUDGE else None
            _RIGHT[key] = bool(judged and judged.right[0])
        found.append(_RIGHT[key])
    return found


def propose(state: State, n: int) -> list[str]:
    """Commands of the page, each drawn from the right ones with `RIGHT`."""
    rng = np.random.default_rng(state.step_seed)
    kinds = _kinds(state)
    drawn: list[str] = []
    for _ in range(n):
        kind = kinds[0] if kinds[0] and (rng.random() < RIGHT or not kinds[1]) else kinds[1]
        drawn.append(kind[rng.integers(len(kind))])
    return list(dict.fromkeys(drawn))


def _kinds(state: State) -> list[list[str]]:
    """Commands that are right on this page, and the others."""
    seen = state.observation
    box = next((one for one in seen.elements if one.role == "searchbox"), None)
    if box is None:
        commands = [f"click [{one.mark}]" for one in seen.elements]
    else:  # the goal, or a part of it
        words = state.task.goal.split()
        commands = [f'write [{box.mark}] "{" ".join(words[cut:])}" enter' for cut in (0, 3, 6)]
    good = right(state, [parse_reply(command, seen) for command in commands])
    return [[c for c, ok in zip(commands, good, strict=True) if ok == wanted] for wanted in (True, False)]


@dataclass(frozen=True)
class Noisy:
    """`Scorer`, which a gate can hold."""

    strength: float

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        return ()

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=tuple(self.values(state, candidates)))

    def values(self, state: State, candidates: Sequence[Candidate]) -> list[float]:
        found = []
        for one, ok in zip(candidates, right(state, candidates), strict=True):
            text = "\x1f".join([str(self.strength), state.task.id, state.observation.text, one.label])
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            found.append(self.strength * ok + float(np.random.default_rng(seed).normal()))
        return found


async def collect(folder: Path, tasks: int, repeats: int) -> None:
    """The exploring agent's episodes, and each scorer's."""
    with Store.open(folder) as store:
        proposer = ScriptedProposer(propose)
        explore = Agent(name="explore", proposer=proposer, selector=EpsilonGreedySelector(EPSILON), n_candidates=N)
        await play(explore, SUITE, store, split="train", tasks=tasks, repeats=repeats, run="seed")
        alone = Agent(name="first", proposer=proposer, n_candidates=N)
        await play(alone, SUITE, store, split="train", tasks=tasks, run="played")
        for strength in STRENGTHS:
            agent = Agent(name=f"{strength:g}", proposer=proposer, scorer=Noisy(strength), n_candidates=N)
            await play(agent, SUITE, store, split="train", tasks=tasks, run="played")


def ranked(episodes: Sequence[Episode], scorer: Noisy) -> LoggedChoices:
    """The exploring agent's choices with the scorer's numbers."""
    found = [one for one in episodes if one.steps and one.verdict.outcome in DECIDED]
    logs = Logs(None, found, dict.fromkeys((one.run for one in found), EPSILON))
    choices = rank_logs(logs, Memory({}, 0.0, N))  # which remembers nothing
    q = np.full_like(choices.q, -np.inf)
    rows = iter(q)
    for episode in found:
        for at, step in enumerate(episode.steps):
            candidates = step.decision.candidates
            state = state_at(episode.task, episode.steps[:at], step.observation)
            next(rows)[: len(candidates)] = scorer.values(state, candidates)
    return replace(choices, q=q)


def judged() -> list[Judged]:
    """Play, or continue, and hold what the logs say of each scorer against it."""
    asyncio.run(collect(FOLDER, TASKS, LOGGED))
    with Store.open(FOLDER, read_only=True) as store:
        logs = [*store.episodes(run="seed")]
        alone = attempts_of(store.summaries(agent="first"))
        found = []
        for strength in STRENGTHS:
            log, name = ranked(logs, Noisy(strength)), f"{strength:g}"
            found.append(judge(name, log, attempts_of(store.summaries(agent=name)), alone))
    return found
