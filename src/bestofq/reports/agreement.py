"""How well a judge agrees with the true reward, on suites that have one."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import get_args

import numpy as np

from bestofq.core.decision import DECIDED, Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.reports import stats
from bestofq.reports.stats import Doubles, Measure, Span, share
from bestofq.reports.table import Row, Table, columns
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


class Truth(FrozenModel):
    """Episodes by what they really were."""

    success: int = 0
    failure: int = 0


class Agreement(FrozenModel):
    """One judge against the environment. Positive is success: blocked and impossible are the judge's other ways to say
    no. Unparseable and unjudged episodes are in `classes` alone: the measures are over `compared` episodes."""

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
    """The judge named so against the environment's own verdicts in a run. DataError where it has judged none."""
    judged = judged_beside(store, run, judge, agent)
    counts = confusion(judged)
    classes = Counter((said, episode.success) for episode, said in judged)
    truths = {name: Truth(success=classes[name, True], failure=classes[name, False]) for name in get_args(Outcome)}

    def measure(statistic: Callable[[Doubles], Doubles], span: Span | None = stats.UNIT) -> Measure:
        return stats.measure(counts, statistic, span=span)

    return Agreement(
        judge=judge,
        compared=int(counts.sum()),
        tasks=len(counts),
        classes={name: truth for name, truth in truths.items() if truth.success + truth.failure},
        accuracy=measure(lambda sums: share(sums[..., 0] + sums[..., 3], sums.sum(axis=-1))),
        precision=measure(lambda sums: share(sums[..., 0], sums[..., 0] + sums[..., 1])),
        recall=measure(lambda sums: share(sums[..., 0], sums[..., 0] + sums[..., 2])),
        kappa=measure(cohens_kappa, None),
    )


def judged_beside(store: Store, run: str, judge: str, agent: str | None = None) -> list[tuple[EpisodeSummary, Outcome]]:
    """Decided episodes of a run that this judge judged beside the environment, and its word. DataError: none."""
    verdicts = store.verdicts(run=run, agent=agent)
    if judge not in verdicts:
        raise DataError(
            f"judge {judge!r} has no verdict beside the environment's in run {run!r}: there are those of "
            f"{'; '.join(verdicts) or 'none'} (`bestofq judge --against-env` gives them)"
        )
    said = {episode: verdict.outcome for episode, verdict in verdicts[judge].items()}
    episodes = store.summaries(run=run, agent=agent)
    return [(e, said[e.id]) for e in episodes if e.id in said and not e.judge and e.decided]


def confusion(judged: Iterable[tuple[EpisodeSummary, Outcome]]) -> Doubles:
    """By task [T, 4]: true and false positives, false and true negatives of a judge's telling verdicts."""
    cells: dict[Hashable, Doubles] = defaultdict(lambda: np.zeros(4))
    for episode, said in judged:
        if said in DECIDED:
            cells[episode.key[:2]][2 * (said != "success") + (not episode.success)] += 1
    return np.array([*cells.values()]).reshape(-1, 4)


def agreement_tables(found: Agreement) -> tuple[Table, Table]:
    """How its verdicts fall among what episodes really were, and how well they agree with that."""
    classes = Table(
        name="verdicts",
        title=f"Judge: {found.judge}",
        columns=columns("judged", "truly success", "truly not"),
        rows=tuple(Row(cells=(name, truth.success, truth.failure)) for name, truth in found.classes.items()),
    )
    names = {"accuracy": "accuracy", "precision": "precision", "recall": "recall", "kappa": "Cohen's κ"}
    return classes, Table(
        name="agreement",
        title="Agreement with the environment",
        columns=(*columns("measure"), *columns("value", digits=3)),
        rows=tuple(Row(cells=(head, getattr(found, name))) for name, head in names.items()),
        notes=found.notes,
    )


def cohens_kappa(counts: Doubles) -> Doubles:
    """κ = (p_o − p_e) / (1 − p_e) (Cohen 1960) of [..., 4], as `confusion`; NaN where both name one class only."""
    true_yes, false_yes, false_no, true_no = np.moveaxis(counts, -1, 0)
    total = counts.sum(axis=-1)
    chance = (true_yes + false_yes) * (true_yes + false_no) + (false_no + true_no) * (false_yes + true_no)
    return share((true_yes + true_no) * total - chance, total**2 - chance)
