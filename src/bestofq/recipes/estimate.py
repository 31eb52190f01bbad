"""Q-functions and logged episodes of tasks that they did not learn from: a fifth of the tasks held out from each."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bestofq.config.models import Models
from bestofq.core.errors import DataError
from bestofq.core.identity import key_of
from bestofq.core.logged import LoggedChoices
from bestofq.envs.splits import uniform
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.learning.value import ValueModel
from bestofq.recipes.q_training import episode_set, q_identity, task_mark, train_q
from bestofq.recipes.ranked_logs import HeldOut, logs_of, rank_logs
from bestofq.recipes.training_episodes import select_episodes
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

FOLDS = 5


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
