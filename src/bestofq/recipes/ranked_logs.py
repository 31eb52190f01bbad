"""Stored decisions with the Q of every candidate and the probability with which it was taken, as `LoggedChoices`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.learned import Values
from bestofq.agents.selectors import EpsilonGreedySelector, UniformSelector
from bestofq.config.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Floats, Ints, Transitions
from bestofq.learning.siblings import ranked_right, siblings
from bestofq.recipes.q_training import embed_items, episodes_of
from bestofq.rollouts.transitions import tabulate
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

_ROWS = 1024  # steps whose candidates' vectors are in memory at once


class HeldOut(NamedTuple):
    """`choices`, and of each task the pairs of sibling actions that Q ranks right, and all (`learning.siblings`)."""

    choices: LoggedChoices
    siblings: list[tuple[int, float, float]]


class Logs(NamedTuple):
    """Decided episodes with a step, embedded: what any Q-function over these vectors may rank."""

    data: Transitions
    episodes: Sequence[Episode]
    epsilons: Mapping[str, object]  # by run


def logs_of(models: Models, store: Store, episodes: Sequence[EpisodeSummary]) -> Logs:
    """DataError where there is none."""
    found = [one for one in episodes_of(store, episodes) if one.steps and one.verdict.outcome in DECIDED]
    table = tabulate(found, models.texts, others=True)
    vectors = embed_items(models, table.items, store, store.vectors(models.embedder.spec))
    epsilons = {run.name: run.config.get("epsilon") for run in store.runs()}
    return Logs(table.transitions(vectors), found, epsilons)


def rank_logs(logs: Logs, values: Values) -> HeldOut:
    """With the Q of every candidate, in the proposer's order. Siblings are told apart by page and label, whatever Q
    reads."""
    data, found, epsilons = logs
    steps = [step.decision for episode in found for step in episode.steps]
    chosen = np.array([one.chosen for one in steps])
    actions = _in_order(data, chosen)
    q, value = _compute_values(data, actions, values)
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
    alone = tabulate(found, EmbeddingTexts()).rows
    return HeldOut(choices, ranked_right(alone, siblings(alone), taken))


def _in_order(data: Transitions, chosen: Ints) -> Ints:
    """[T, N] rows of the vectors, as the proposer offered the candidates; -1 beyond the last."""
    taken = data.action[:, None]
    rows = taken if data.others is None else np.concatenate([taken, data.others], axis=1)
    at, here = np.arange(rows.shape[1])[None], chosen[:, None]
    return np.take_along_axis(rows, np.where(at == here, 0, at + (at < here)), axis=1)


def _compute_values(data: Transitions, actions: Ints, values: Values) -> tuple[Floats, Floats]:
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
