"""How well a judge agrees with the true reward, on suites that have one."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import get_args

import numpy as np

from bestofq.core.decision import DECIDED, Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.reports import stats
from bestofq.reports.stats import Doubles, Measure, share
from bestofq.reports.table import Row, Table, columns
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


class Truth(FrozenModel):
    """Episodes by what they really were."""

    success: int = 0
    failure: int = 0


class Agreement(FrozenModel):
    """One judge against the environment. Success is positive; blocked and impossible are the judge's other ways to say
    no. Unparseable and unjudged episodes are only in `classes`: the measures are over `compared` episodes."""

    judge: str
    compared: int
    tasks: int
    classes: dict[Outcome, Truth]
    accuracy: Measure
    precision: Measure
    recall: Measure
    kappa: Measure

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        apart = sum(t.success + t.failure for name, t in self.classes.items() if name not in DECIDED)
        return (
            f"Over {self.compared} episodes of {self.tasks} tasks; {apart} more got no verdict and are left out.",
            f"95 % bootstrap over tasks ({stats.RESAMPLES:,} resamples). Positive: success. "
            "Truth: the environment's own reward of 1.",
        )


def agreement(store: Store, run: str, *, judge: str, agent: str | None = None) -> Agreement:
    """The judge of this name against the environment's verdicts in a run. DataError if it has judged none."""
    verdicts = store.verdicts(run=run, agent=agent)
    if judge not in verdicts:
        raise DataError(
            f"judge {judge!r} has given no second verdict in run {run!r}: there are those of "
            f"{'; '.join(verdicts) or 'none'} (`bestofq judge --against-env` gives them)"
        )
    said = {episode: verdict.outcome for episode, verdict in verdicts[judge].items()}
    episodes = store.summaries(run=run, agent=agent)
    judged = [(e, said[e.id]) for e in episodes if e.id in said and not e.judge and e.decided]
    counts = _count_confusion(judged)
    kinds = Counter((outcome, episode.success) for episode, outcome in judged)
    classes = {name: Truth(success=kinds[name, True], failure=kinds[name, False]) for name in get_args(Outcome)}
    return Agreement(
        judge=judge,
        compared=int(counts.sum()),
        tasks=len(counts),
        classes={name: truth for name, truth in classes.items() if truth.success + truth.failure},
        accuracy=stats.measure(counts, lambda sums: share(sums[..., 0] + sums[..., 3], sums.sum(-1)), span=stats.UNIT),
        precision=stats.measure(counts, lambda sums: share(sums[..., 0], sums[..., :2].sum(-1)), span=stats.UNIT),
        recall=stats.measure(counts, lambda sums: share(sums[..., 0], sums[..., ::2].sum(-1)), span=stats.UNIT),
        kappa=stats.measure(counts, cohens_kappa),
    )


def _count_confusion(judged: Iterable[tuple[EpisodeSummary, Outcome]]) -> Doubles:
    """By task [T, 4]: true and false positives, false and true negatives of a judge's decided verdicts."""
    cells: dict[Hashable, Doubles] = defaultdict(lambda: np.zeros(4))
    for episode, outcome in judged:
        if outcome in DECIDED:
            cells[episode.key[:2]][2 * (outcome != "success") + (not episode.success)] += 1
    return np.array([*cells.values()]).reshape(-1, 4)


def agreement_tables(found: Agreement) -> tuple[Table, Table]:
    """How the judge's verdicts fall among what episodes really were, and how well they agree with that."""
    classes = Table(
        name="verdicts",
        title=f"Judge: {found.judge}",
        columns=columns("judged", "truly success", "truly not"),
        rows=tuple(Row(cells=(name, truth.success, truth.failure)) for name, truth in found.classes.items()),
    )
    measures = ("accuracy", found.accuracy), ("precision", found.precision), ("recall", found.recall)
    return classes, Table(
        name="agreement",
        title="Agreement with the environment",
        columns=(*columns("measure"), *columns("value", digits=3)),
        rows=tuple(Row(cells=cells) for cells in (*measures, ("Cohen's κ", found.kappa))),
        notes=found.notes,
    )


def cohens_kappa(counts: Doubles) -> Doubles:
    """κ = (p_o − p_e) / (1 − p_e) (Cohen 1960) of [..., 4] as counted above; NaN if both name one class only."""
    true_yes, false_yes, false_no, true_no = np.moveaxis(counts, -1, 0)
    total = counts.sum(axis=-1)
    chance = (true_yes + false_yes) * (true_yes + false_no) + (false_no + true_no) * (false_yes + true_no)
    return share((true_yes + true_no) * total - chance, total**2 - chance)
