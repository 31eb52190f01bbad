"""What logged episodes tell of Q-functions that did not learn from them: nobody plays, and nothing is rewarded anew."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.learned import Values
from bestofq.agents.selectors import EpsilonGreedySelector, UniformSelector
from bestofq.config.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.errors import DataError
from bestofq.core.identity import key_of
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Floats, Ints, Transitions
from bestofq.envs.splits import uniform
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.learning.siblings import Siblings, ranked_right, siblings
from bestofq.learning.value import ValueModel
from bestofq.recipes.identity import episode_set, q_identity, task_mark
from bestofq.recipes.q_training import embed_items, episodes_of, select_episodes, train_q, transitions_of
from bestofq.rollouts.console import console
from bestofq.rollouts.transitions import tabulate
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

FOLDS = 5
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
    """With the Q of every candidate, in the proposer's order. Siblings differ in page or label, whatever Q reads."""
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
        if step.decision.propensities is not None:
            row[:count] = step.decision.propensities
        elif episode.agent == "random":
            row[:count] = UniformSelector().probabilities(count)
        elif episode.agent == "explore" and isinstance(epsilon, int | float) and epsilon > 0:
            row[:count] = EpsilonGreedySelector(float(epsilon)).probabilities(count)
        else:
            row[:count] = np.nan
        yield row


def _tokens(episode: Episode) -> int:
    return sum(used.tokens_in + used.tokens_out for used in episode.usage)


def _usd(episode: Episode) -> float:
    """NaN where a price is not known."""
    return sum(float("nan") if used.usd is None else used.usd for used in episode.usage)


def fold_of(key: EpisodeKey) -> int:
    """Of `FOLDS`, by the task's name alone, so that more episodes change nothing."""
    return int(uniform(f"{key.suite}/{key.task}") * FOLDS)


def learned_apart(models: Models, store: Store, learned: Sequence[EpisodeSummary], out: Path) -> ValueModel:
    """Train or load the Q-function of these episodes, in a folder of its own below `out`."""
    return train_q(out / key_of(q_identity(models, episode_set(learned))), models, store, learned)


def cross_fit(
    models: Models, store: Store, episodes: Sequence[EpisodeSummary], out: Path, folds: int = FOLDS
) -> HeldOut:
    """Each of the first `folds` fifths of the tasks, with the Q that learned from the other four. DataError where one
    of them is empty, InputError where the others teach nothing."""
    parts, held = [], {fold_of(one.key) for one in episodes}
    if len(held) < 2 or not held.issuperset(range(folds)):
        fewer = ", or give fewer --folds" if folds > 1 else ""
        raise DataError(
            f"the episodes are of {len({one.key[:2] for one in episodes})} tasks, too few to hold a fifth of them "
            f"out: collect episodes of more tasks{fewer}"
        )
    for fold in range(folds):
        here = [one for one in episodes if fold_of(one.key) == fold]
        rest = [one for one in episodes if fold_of(one.key) != fold]
        values = learned_apart(models, store, rest, out)
        parts.append(rank_logs(logs_of(models, store, here), values))
    pairs = [one for part in parts for one in part.siblings]
    numbered = [(at, right, whole) for at, (_, right, whole) in enumerate(pairs)]  # a task is in one fold
    return HeldOut(LoggedChoices.concatenate([part.choices for part in parts]), numbered)


def not_learned_from(q: Path, episodes: Sequence[EpisodeSummary], models: Models) -> list[EpisodeSummary] | None:
    """Those of tasks that the Q-function in a folder did not learn from; None: its checkpoint does not tell."""
    known = read_card(q).episodes if (q / CARD).exists() else None
    if known is None:
        return None
    if known.tasks is None:
        return [] if episode_set(episodes).fingerprint == known.fingerprint else None
    return [one for one in episodes if task_mark(one.key) not in known.tasks]


def learned_from(q: Path, store: Store, runs: Sequence[str], models: Models) -> list[EpisodeSummary] | None:
    """The episodes of `runs` that the Q-function in a folder learned from: all, or the first ones, pass after pass.
    None: it learned from others, or they have other verdicts now."""
    known = read_card(q).episodes
    for count in (None, known.count) if known else ():
        with suppress(DataError):  # there are fewer
            found = select_episodes(store, runs, count)
            if known and episode_set(found).fingerprint == known.fingerprint:
                return found
    return None


class Trial(NamedTuple):
    """One of the settings tried. `right`: of each held-out task, pairs of sibling actions ranked right, and all."""

    settings: str
    right: list[tuple[int, float, float]]

    @property
    def share(self) -> float:
        """Of the pairs, in [0, 1]."""
        return sum(right for _, right, _ in self.right) / sum(pairs for _, _, pairs in self.right)


@dataclass(frozen=True)
class Trials:
    """What settings are tried on: these episodes of `store`, a fifth of the tasks held out. Q-functions are kept in
    `out`."""

    store: Store
    learned: Sequence[EpisodeSummary]
    out: Path

    def evaluate_trial(self, name: str, models: Models) -> Trial:
        """Q and V learned from the other tasks' episodes, or resumed, rank the held-out ones. DataError where no task
        has siblings among these: before anything is learned."""
        held_out, pairs = self._held_out
        console.print(f"with {name}:", highlight=False)
        values = learned_apart(models, self.store, self._summaries(of_held_out=False), self.out)
        data = transitions_of(models, self._episodes(), self.store)
        q = values.q(*(data.vectors[rows] for rows in (data.state, data.action, data.task)))
        return Trial(name, ranked_right(held_out, pairs, q))

    def proposer(self) -> Trial | None:
        """How the proposer's own likelihood ranks them; None where it tells none."""
        held_out, pairs = self._held_out
        episodes = (one for one in self._episodes() if one.verdict.outcome in DECIDED)
        likely = [step.decision.candidate.log_prob for episode in episodes for step in episode.steps]
        if None in likely:
            return None
        return Trial("the proposer's likelihood", ranked_right(held_out, pairs, np.array(likely, np.float32)))

    @cached_property
    def _held_out(self) -> tuple[Transitions, Siblings]:
        """Return the steps of the held-out episodes [T] without vectors, and the siblings among them.

        Siblings are found by page and label, so they are the same in every trial. DataError if there are none.
        """
        decided = [one for one in self._summaries(of_held_out=True) if one.decided and one.steps]
        data = tabulate(self._episodes(), EmbeddingTexts()).rows if decided else None
        if data is None or not len((pairs := siblings(data)).better):
            raise DataError(
                "there is nothing to try settings by: no success and failure of a held-out task differ in an action on "
                "one page; collect several passes over the same tasks (--set seed_runs=5), or more tasks"
            )
        return data, pairs

    def _episodes(self) -> Iterator[Episode]:
        return episodes_of(self.store, self._summaries(of_held_out=True))

    def _summaries(self, *, of_held_out: bool) -> list[EpisodeSummary]:
        return [one for one in self.learned if (fold_of(one.key) == 0) == of_held_out]
