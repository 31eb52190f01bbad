"""How well a judge agrees with the true reward, on suites that have one."""

from collections.abc import Callable, Mapping
from typing import get_args

import numpy as np

from bestofq.core.decision import TOLD, Outcome, Verdict
from bestofq.core.errors import DataError
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.stats import Doubles, Measure, Span, share
from bestofq.reports.table import Column, Row, Table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


class Truth(Noun):
    """Episodes by what they really were."""

    success: int = 0
    failure: int = 0


class Agreement(Noun):
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
        apart = sum(t.success + t.failure for name, t in self.classes.items() if name not in TOLD)
        return (
            f"Over {self.compared} episodes of {self.tasks} tasks; {apart} more got no verdict and are left out.",
            f"95 % bootstrap over tasks ({stats.RESAMPLES:,} resamples). Positive: success. "
            "Truth: the environment's own reward of 1.",
        )


def agreement(
    store: Store,
    run: str,
    *,
    judge: str,
    agent: str | None = None,
    resamples: int = stats.RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """The judge named so against the environment's own verdicts in a run. DataError where it has judged none."""
    verdicts = store.verdicts(run=run, agent=agent)
    if judge not in verdicts:
        raise DataError(
            f"judge {judge!r} has no verdict beside the environment's in run {run!r}: "
            f"there are those of {'; '.join(verdicts) or 'none'}"
        )
    episodes = [e for e in store.summaries(run=run, agent=agent) if e.id in verdicts[judge] and not e.judge and e.told]
    return compare(episodes, verdicts[judge], judge=judge, resamples=resamples, seed=seed)


def compare(
    episodes: list[EpisodeSummary],
    verdicts: Mapping[str, Verdict],
    *,
    judge: str,
    resamples: int = stats.RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """A judge's verdicts by episode id against the episodes' own outcomes."""
    classes: dict[Outcome, Truth] = {}
    cells: dict[tuple[str, str], list[int]] = {}  # by task: true and false positives, false and true negatives
    for episode in episodes:
        outcome = verdicts[episode.id].outcome
        before = classes.get(outcome, Truth())
        kind = "success" if episode.success else "failure"
        classes[outcome] = before.model_copy(update={kind: getattr(before, kind) + 1})
        if outcome in TOLD:
            cell = cells.setdefault(episode.slot[:2], [0, 0, 0, 0])
            cell[(0 if episode.success else 1) if outcome == "success" else (2 if episode.success else 3)] += 1
    counts = np.array(list(cells.values()), dtype=np.float64).reshape(-1, 4)  # [T, 4]

    def measure(statistic: Callable[[Doubles], Doubles], span: Span | None = stats.UNIT) -> Measure:
        return stats.measure(counts, statistic, span=span, resamples=resamples, seed=seed)

    return Agreement(
        judge=judge,
        compared=int(counts.sum()),
        tasks=len(cells),
        classes={name: classes[name] for name in get_args(Outcome) if name in classes},
        accuracy=measure(_accuracy),
        precision=measure(_precision),
        recall=measure(_recall),
        kappa=measure(cohens_kappa, None),
    )


def agreement_tables(found: Agreement) -> tuple[Table, Table]:
    """How its verdicts fall among what episodes really were, and how well they agree with that."""
    classes = Table(
        name="verdicts",
        title=f"Judge: {found.judge}",
        columns=tuple(Column(name=name) for name in ("judged", "truly success", "truly not")),
        rows=tuple(Row(cells=(name, truth.success, truth.failure)) for name, truth in found.classes.items()),
    )
    measures = (found.accuracy, found.precision, found.recall, found.kappa)
    names = ("accuracy", "precision", "recall", "Cohen's κ")
    return classes, Table(
        name="agreement",
        title="Agreement with the environment",
        columns=(Column(name="measure"), Column(name="value", digits=3)),
        rows=tuple(Row(cells=cells) for cells in zip(names, measures, strict=True)),
        notes=found.notes,
    )


def _accuracy(counts: Doubles) -> Doubles:
    return share(counts[..., 0] + counts[..., 3], counts.sum(axis=-1))


def _precision(counts: Doubles) -> Doubles:
    return share(counts[..., 0], counts[..., 0] + counts[..., 1])


def _recall(counts: Doubles) -> Doubles:
    return share(counts[..., 0], counts[..., 0] + counts[..., 2])


def cohens_kappa(counts: Doubles) -> Doubles:
    """κ = (p_o − p_e) / (1 − p_e) (Cohen 1960) of [..., 4]: true and false positives, false and true negatives.

    NaN where chance alone agrees fully: both name one class only.
    """
    true_yes, false_yes, false_no, true_no = np.moveaxis(counts, -1, 0)
    total = counts.sum(axis=-1)
    chance = (true_yes + false_yes) * (true_yes + false_no) + (false_no + true_no) * (false_yes + true_no)
    return share((true_yes + true_no) * total - chance, total**2 - chance)
