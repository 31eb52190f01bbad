"""Which settings rank best, by logged episodes held out from training: nobody plays, and no oracle is asked."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bestofq.build.models import Models
from bestofq.core.errors import DataError
from bestofq.core.identity import key_of
from bestofq.core.transitions import Transitions
from bestofq.learning.checkpoint import load_value
from bestofq.learning.siblings import ranked_right, siblings
from bestofq.recipes.best_of_q import summaries
from bestofq.recipes.q_training import Origin, TrainingSet, is_learned, learn, transitions_of
from bestofq.store.store import Store

HELD_OUT = 0.2
"""Share of the tasks, about, whose episodes are not learned from while settings are tried."""


class Trial(NamedTuple):
    """One of the settings tried. `right`: of each held-out task, pairs of sibling actions ranked right, and all."""

    settings: str
    right: list[tuple[int, float, float]]

    @property
    def share(self) -> float:
        """Of the pairs, in [0, 1]."""
        return sum(right for _, right, _ in self.right) / sum(pairs for _, _, pairs in self.right)


def held_out(suite: str, task: str) -> bool:
    """By the task's name alone, so that more episodes change nothing."""
    digest = hashlib.sha256(f"{suite}/{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT * 2**64


@dataclass(frozen=True)
class Trials:
    """What settings are tried on: the episodes of some runs. Q-functions are kept in `out`."""

    store: Store
    runs: Sequence[str]
    out: Path
    console: Console

    def tried(self, name: str, models: Models) -> Trial:
        """Q and V are learned from the other tasks' episodes, which resumes, and rank those of the held-out ones.

        DataError where no success and failure of one held-out task differ in their action on one page.
        """
        apart = [one for one in summaries(self.store, self.runs) if not held_out(one.key.suite, one.key.task)]
        origin = Origin.of(models, apart)
        folder = self.out / key_of(origin.identity)

        def training_set() -> TrainingSet | None:
            learned = is_learned(folder, origin, self.console)
            return None if learned else TrainingSet(origin, self._transitions(models, of_held_out=False))

        self.console.print(f"with {name}:", highlight=False)
        learn(training_set, models.settings.iql, folder, self.console)
        data = self._transitions(models, of_held_out=True)
        pairs = siblings(data)
        if not len(pairs.better):
            raise DataError(
                "there is nothing to try settings by: no success and failure of a held-out task differ in an action on "
                "one page; collect several passes over the same tasks (--set seed_runs=5)"
            )
        return Trial(name, ranked_right(load_value(folder, embed=models.embedder.spec), data, pairs))

    def _transitions(self, models: Models, *, of_held_out: bool) -> Transitions:
        stored = (one for run in self.runs for one in self.store.episodes(run=run))
        episodes = (one for one in stored if held_out(one.task.suite, one.task.id) == of_held_out)
        return transitions_of(models, episodes, self.store, self.store.vectors(models.embedder.spec), self.console)
