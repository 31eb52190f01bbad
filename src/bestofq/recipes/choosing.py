"""Which settings rank best, by logged episodes held out from training: nobody plays, and no oracle is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.config.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions
from bestofq.learning.siblings import Siblings, ranked_right, siblings
from bestofq.recipes.estimate import fold_of, learned_apart
from bestofq.recipes.q_training import episodes_of, transitions_of
from bestofq.rollouts.console import console
from bestofq.rollouts.transitions import tabulate
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


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
        """Steps of the held-out episodes [T], without vectors, and the siblings among them: by page and label, so that
        they are the same in every trial, whatever it embeds. DataError where there are none."""
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
