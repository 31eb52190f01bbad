"""Logged choices with the Q of every candidate, of a Q-function that learned nothing from their tasks."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from bestofq.agents.scorers.learned import Values
from bestofq.agents.selectors import EpsilonGreedySelector, UniformSelector
from bestofq.build.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.errors import DataError
from bestofq.core.identity import key_of
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Floats, Ints, Transitions
from bestofq.envs.splits import uniform
from bestofq.learning.checkpoint import load_value
from bestofq.learning.siblings import ranked_right, siblings
from bestofq.learning.value import ValueModel
from bestofq.recipes.best_of_q import transitions
from bestofq.recipes.q_training import Origin, embedded, episodes_of, learn, lesson, task_mark
from bestofq.rollouts.transitions import records, tabulate
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

FOLDS = 5
_ROWS = 1024  # steps whose candidates' vectors are in memory at once


class HeldOut(NamedTuple):
    """`choices`, and of each task the pairs of sibling actions that Q ranks right, and all (`learning.siblings`)."""

    choices: LoggedChoices
    siblings: list[tuple[int, float, float]]


def fold_of(key: EpisodeKey) -> int:
    """Of `FOLDS`, by the task's name alone, so that more episodes change nothing."""
    return int(uniform(f"{key.suite}/{key.task}") * FOLDS)


def learned_apart(
    models: Models, store: Store, learned: Sequence[EpisodeSummary], out: Path, console: Console
) -> ValueModel:
    """Q and V of these episodes, learned or resumed in a folder of their own below `out`."""
    origin = Origin.of(models, learned)
    folder = out / key_of(origin.identity)

    learn(
        lambda: lesson(origin, lambda: transitions(models, store, learned, console), folder, console),
        models.settings.iql,
        folder,
        console,
    )
    return load_value(folder, embed=models.embedder.spec)


def cross_fitted(
    models: Models, store: Store, episodes: Sequence[EpisodeSummary], out: Path, console: Console, folds: int = FOLDS
) -> HeldOut:
    """Each of the first `folds` fifths of the tasks, with the Q that learned from the other four. DataError where one
    of them is empty, InputError where the others teach nothing."""
    parts = []
    for fold in range(folds):
        here = [one for one in episodes if fold_of(one.key) == fold]
        rest = [one for one in episodes if fold_of(one.key) != fold]
        if not here or not rest:
            raise DataError(
                f"the episodes are of {len({one.key[:2] for one in episodes})} tasks, too few to hold a fifth of them "
                "out: collect episodes of more tasks"
            )
        values = learned_apart(models, store, rest, out, console)
        parts.append(ranked(models, store, here, values, console))
    pairs = [one for part in parts for one in part.siblings]
    numbered = [(at, right, whole) for at, (_, right, whole) in enumerate(pairs)]  # a task is in one fold
    return HeldOut(LoggedChoices.joined([part.choices for part in parts]), numbered)


def not_learned_from(q: Path, episodes: Sequence[EpisodeSummary], models: Models) -> list[EpisodeSummary] | None:
    """Those of tasks that the Q-function in a folder did not learn from; None: its checkpoint does not tell."""
    origin = Origin.read(q)
    if origin is None or origin.episodes is None:
        return None
    if origin.episodes.tasks is None:
        now = Origin.of(models, episodes).episodes
        return [] if now and now.fingerprint == origin.episodes.fingerprint else None
    taught = set(origin.episodes.tasks)
    return [one for one in episodes if task_mark(one.key) not in taught]


def ranked(
    models: Models, store: Store, episodes: Sequence[EpisodeSummary], values: Values, console: Console
) -> HeldOut:
    """All decided episodes with a step, their candidates in the proposer's order. DataError where there is none."""
    found = [one for one in episodes_of(store, episodes) if one.steps and one.verdict.outcome in DECIDED]
    table = tabulate(records(found, models.texts, others=True))
    vectors = embedded(models, table.items, store, store.vectors(models.embedder.spec), console)
    data = table.transitions(vectors)
    steps = [step.decision for episode in found for step in episode.steps]
    chosen = np.array([one.chosen for one in steps])
    actions = _in_order(data, chosen)
    q, value = _valued(data, actions, values)
    epsilons = {run.name: run.config.get("epsilon") for run in store.runs()}
    taken = q[np.arange(len(q)), chosen]
    probable = [row for episode in found for row in _propensities(episode, epsilons.get(episode.run), q.shape[1])]
    choices = LoggedChoices(
        episode=np.repeat(np.arange(len(found)), [len(one.steps) for one in found]),
        task=tuple((one.task.suite, one.task.id) for one in found),
        success=np.array([one.verdict.outcome == "success" for one in found]),
        q=q,
        value=value,
        tokens=np.array([_tokens(one) for one in found], np.float32),
        usd=np.array([_usd(one) for one in found], np.float32),
        chosen=chosen,
        propensity=np.array(probable, np.float32),
    )
    return HeldOut(choices, ranked_right(data, siblings(data), taken))


def _in_order(data: Transitions, chosen: Ints) -> Ints:
    """[T, N] rows of the vectors, as the proposer offered the candidates; -1 beyond the last."""
    taken = data.action[:, None]
    rows = taken if data.others is None else np.concatenate([taken, data.others], axis=1)
    at, here = np.arange(rows.shape[1])[None], chosen[:, None]
    return np.take_along_axis(rows, np.where(at == here, 0, at + (at < here)), axis=1)


def _valued(data: Transitions, actions: Ints, values: Values) -> tuple[Floats, Floats]:
    """Q [T, N], -∞ where there is no candidate, and V [T]."""
    q, v = [], []
    for start in range(0, len(data), _ROWS):
        part = slice(start, start + _ROWS)
        state, task = data.vectors[data.state[part]], data.vectors[data.task[part]]
        q.append(values.q(state, data.vectors[actions[part]], task))
        v.append(values.v(state, task))
    return np.where(actions < 0, -np.inf, np.concatenate(q)).astype(np.float32), np.concatenate(v)


def _propensities(episode: Episode, epsilon: object, width: int) -> Iterator[Floats]:
    """Of each step [N]: with what probability its agent takes each candidate; NaN where that is not known."""
    for step in episode.steps:
        count = len(step.decision.candidates)
        row = np.zeros(width, np.float32)
        if episode.agent == "random":
            row[:count] = UniformSelector().probabilities(count)
        elif episode.agent == "explore" and isinstance(epsilon, int | float):
            row[:count] = EpsilonGreedySelector(float(epsilon)).probabilities(count)
        else:
            row[:count] = np.nan
        yield row


def _tokens(episode: Episode) -> int:
    return sum(used.tokens_in + used.tokens_out for used in episode.usage)


def _usd(episode: Episode) -> float:
    """NaN where a price is not known."""
    return sum(float("nan") if used.usd is None else used.usd for used in episode.usage)
