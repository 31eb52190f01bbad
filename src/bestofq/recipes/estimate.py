"""What logged episodes tell of Q-functions that did not learn from them: nobody plays, and nothing is rewarded anew."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bestofq.agents.scorers.learned import Values
from bestofq.agents.scorers.memory import step_keys
from bestofq.agents.selectors import EpsilonGreedySelector, UniformSelector
from bestofq.config.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.errors import DataError, InputError
from bestofq.core.gate import Held
from bestofq.core.identity import key_of
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Floats, Transitions
from bestofq.core.words import count_of
from bestofq.envs.splits import uniform
from bestofq.learning.checkpoint import read_card
from bestofq.learning.config import CARD, EpisodeSet
from bestofq.learning.memory import FILE, Memory
from bestofq.learning.value import ValueModel
from bestofq.recipes.identity import episode_set, q_identity, task_mark
from bestofq.recipes.q_training import embed_items, episodes_of, select_episodes, train_q
from bestofq.rollouts.transitions import NO_EPISODE, tabulate
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

FOLDS = 5
_ROWS = 1024  # steps whose candidates' vectors are in memory at once


class Logs(NamedTuple):
    """Decided episodes with a step, embedded unless outcomes are remembered."""

    data: Transitions | None
    episodes: Sequence[Episode]
    epsilons: Mapping[str, object]  # by run


def logs_of(models: Models, store: Store, episodes: Sequence[EpisodeSummary]) -> Logs:
    """DataError where there is none."""
    found = [one for one in episodes_of(store, episodes) if one.steps and one.verdict.outcome in DECIDED]
    if not found:
        raise DataError(NO_EPISODE)
    epsilons = {run.name: run.config.get("epsilon") for run in store.runs()}
    if models.settings.value == "memory":
        return Logs(None, found, epsilons)
    items, rows = tabulate(found, models.texts, candidates=True)
    vectors = embed_items(models, items, store, store.vectors(models.embedder.spec))
    return Logs(replace(rows, vectors=vectors), found, epsilons)


def rank_logs(logs: Logs, values: Values) -> LoggedChoices:
    """Return the choices with the Q of every candidate, in the proposer's order."""
    data, found, epsilons = logs
    steps = [step.decision for episode in found for step in episode.steps]
    chosen, keys = np.array([one.chosen for one in steps]), [keys for episode in found for keys in step_keys(episode)]
    memory = values.memory
    if isinstance(values, Memory):
        q = _pad(([values.recall(one) for one in candidates] for candidates in keys), -np.inf)
    else:
        assert data is not None
        q = _compute_q(data, values)
    levels = ([memory.familiarity(one) if memory else 0 for one in candidates] for candidates in keys)
    probable = (row for episode in found for row in _propensities(episode, epsilons.get(episode.run)))
    return LoggedChoices(
        episode=np.repeat(np.arange(len(found)), [len(one.steps) for one in found]),
        task=tuple((one.task.suite, one.task.id) for one in found),
        success=np.array([one.verdict.outcome == "success" for one in found]),
        q=q,
        level=_pad(levels, 0).astype(np.int64),
        chosen=chosen,
        propensity=_pad(probable, 0),
    )


def _pad(rows: Iterable[Iterable[float]], fill: float) -> Floats:
    """Return rows of unlike lengths as [T, N]."""
    return np.array([*zip_longest(*rows, fillvalue=fill)], np.float32).T


def _compute_q(data: Transitions, values: ValueModel) -> Floats:
    """[T, N], -∞ where there is no candidate."""
    actions = data.candidates
    assert actions is not None
    q = []
    for start in range(0, len(data), _ROWS):
        part = slice(start, start + _ROWS)
        state, task = data.vectors[data.state[part]], data.vectors[data.task[part]]
        q.append(values.q(state, data.vectors[actions[part]], task))
    return np.where(actions < 0, -np.inf, np.concatenate(q)).astype(np.float32)


def _propensities(episode: Episode, epsilon: object) -> Iterator[Iterable[float]]:
    """Of each step [N]: with what probability its agent takes each candidate; NaN where that is not known."""
    for step in episode.steps:
        count = len(step.decision.candidates)
        if step.decision.propensities is not None:
            yield step.decision.propensities
        elif episode.agent == "random":
            yield UniformSelector().probabilities(count)
        elif episode.agent == "explore" and isinstance(epsilon, int | float) and epsilon > 0:
            yield EpsilonGreedySelector(float(epsilon)).probabilities(count)
        else:
            yield [np.nan] * count


def cross_fit(
    models: Models, store: Store, episodes: Sequence[EpisodeSummary], out: Path, folds: int = FOLDS
) -> tuple[LoggedChoices, dict[Held, LoggedChoices]]:
    """Each of the first `folds` fifths of the tasks, with the Q that learned from the other four; Q's are kept below
    `out`. Then fifths of the groups, if tasks share some and `folds` is all, and of the passes, if tasks have several;
    unless these are too few.

    DataError if a fifth of the tasks is empty, InputError if the others teach nothing.
    """
    tasks = {one.id: one.task for one in episodes}
    found = _cross_fit(models, store, episodes, out, folds, tasks)
    others, some = dict[Held, LoggedChoices](), episodes_of(store, episodes) if folds == FOLDS else ()
    groups = {one.id: one.task.group or one.task.id for one in some} or tasks
    passes = {one.id: f"{one.task}/{one.run}/{one.repeat}" for one in episodes}
    held_out: dict[Held, dict[str, str]] = {"groups": groups, "passes": passes}
    for held, names in held_out.items():
        with suppress(InputError):
            if len({*names.values()}) != len({*tasks.values()}):
                others[held] = _cross_fit(models, store, episodes, out, folds, names)
    return found, others


def _cross_fit(
    models: Models, store: Store, episodes: Sequence[EpisodeSummary], out: Path, folds: int, names: Mapping[str, str]
) -> LoggedChoices:
    """By fifths of the names, which depend on these alone, so that more episodes change nothing."""
    fold = {one.id: int(uniform(f"{one.suite}/{names[one.id]}") * FOLDS) for one in episodes}
    if len({*fold.values()}) < 2 or not {*fold.values()}.issuperset(range(folds)):
        fewer = ", or run `bestofq estimate --folds 1`" if folds > 1 and {0} < {*fold.values()} else ""
        tasks = count_of(len({one.key[:2] for one in episodes}), "task")
        raise DataError(f"there are episodes of {tasks} only, too few to hold a fifth out: collect more tasks{fewer}")
    parts = []
    for number in range(folds):
        here, rest = ([one for one in episodes if (fold[one.id] == number) is held] for held in (True, False))
        values = train_q(out / key_of(q_identity(models, episode_set(rest))), models, store, rest)
        parts.append(rank_logs(logs_of(models, store, here), values))
    return LoggedChoices.concatenate(parts)


def learned_set(q: Path) -> tuple[str, EpisodeSet | None]:
    """Return the name of what a folder holds, and the episodes that it learned from; None: unknown."""
    if (q / FILE).exists() and not (q / CARD).exists():
        memory = Memory.load(q)
        return memory.checkpoint, memory.episodes
    card = read_card(q)
    return Path(card.weights).stem, card.episodes


def not_learned_from(q: Path, episodes: Sequence[EpisodeSummary]) -> list[EpisodeSummary] | None:
    """Those of tasks that the Q-function in a folder did not learn from; None: its checkpoint does not tell."""
    known = learned_set(q)[1] if (q / CARD).exists() or (q / FILE).exists() else None
    if known is None:
        return None
    if known.tasks is None:
        return [] if episode_set(episodes).fingerprint == known.fingerprint else None
    return [one for one in episodes if task_mark(one.key) not in known.tasks]


def learned_from(q: Path, store: Store, runs: Sequence[str]) -> list[EpisodeSummary] | None:
    """The episodes of `runs` that the Q-function in a folder learned from: all, or the first ones, pass after pass.
    None: it learned from others, or they have other verdicts now."""
    known = learned_set(q)[1]
    for count in (None, known.count) if known else ():
        with suppress(DataError):  # there are fewer
            found = select_episodes(store, runs, count)
            if known and episode_set(found).fingerprint == known.fingerprint:
                return found
    return None
