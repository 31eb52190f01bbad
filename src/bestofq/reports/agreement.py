"""How well a judge agrees with the true reward, on suites that have one."""

from collections import Counter
from typing import get_args

import numpy as np

from bestofq.core.decision import DECIDED, Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.words import count_of
from bestofq.reports import stats
from bestofq.reports.stats import UNIT, Doubles, Measure, group_by, share
from bestofq.reports.table import Table, columns
from bestofq.store.store import Store


class Agreement(FrozenModel):
    """One judge against the environment. Success is positive; blocked and impossible are the judge's other ways to say
    no. Unparseable and unjudged episodes are only in `classes`: the measures are over `compared` episodes."""

    judge: str
    compared: int
    tasks: int
    classes: dict[Outcome, tuple[int, int]]  # by verdict: how many episodes truly succeeded, and failed
    accuracy: Measure
    precision: Measure
    recall: Measure
    kappa: Measure


def agreement(store: Store, run: str, *, judge: str, agent: str | None = None) -> Agreement:
    """The judge of this name against the environment's verdicts in a run. DataError if it has judged none."""
    verdicts = store.verdicts(run=run, agent=agent)
    if judge not in verdicts:
        raise DataError(
            f"judge {judge!r} has given no second verdict in run {run!r}: there are those of "
            f"{'; '.join(verdicts) or 'none'} (`bestofq judge --against-env` gives them)"
        )
    own, episodes = verdicts[judge], store.summaries(run=run, agent=agent)
    judged = [(e, own[e.id].outcome) for e in episodes if e.id in own and not e.judge and e.decided]
    kinds = Counter((outcome, episode.success) for episode, outcome in judged)
    classes = {name: (kinds[name, True], kinds[name, False]) for name in get_args(Outcome)}
    by_task = group_by(((e, outcome) for e, outcome in judged if outcome in DECIDED), lambda pair: pair[0].key[:2])
    counts = np.zeros((len(by_task), 4))  # true and false positives, false and true negatives
    for row, pairs in zip(counts, by_task.values(), strict=True):
        for episode, outcome in pairs:
            row[2 * (outcome != "success") + (not episode.success)] += 1
    return Agreement(
        judge=judge,
        compared=int(counts.sum()),
        tasks=len(counts),
        classes={name: truth for name, truth in classes.items() if any(truth)},
        accuracy=stats.measure(counts, lambda sums: share(sums[..., 0] + sums[..., 3], sums.sum(-1)), span=UNIT),
        precision=stats.measure(counts, lambda sums: share(sums[..., 0], sums[..., :2].sum(-1)), span=UNIT),
        recall=stats.measure(counts, lambda sums: share(sums[..., 0], sums[..., ::2].sum(-1)), span=UNIT),
        kappa=stats.measure(counts, cohens_kappa),
    )


def agreement_tables(found: Agreement) -> tuple[Table, Table]:
    """How the judge's verdicts fall among what episodes really were, and how well they agree with that."""
    apart = sum(sum(truth) for name, truth in found.classes.items() if name not in DECIDED)
    measures = {"accuracy": found.accuracy, "precision": found.precision, "recall": found.recall}
    return Table.of(
        "verdicts",
        f"Judge: {found.judge}",
        columns("judged", "truly success", "truly not"),
        [(name, *truth) for name, truth in found.classes.items()],
    ), Table.of(
        "agreement",
        "Agreement with the environment",
        (*columns("measure"), *columns("value", digits=3)),
        (measures | {"Cohen's κ": found.kappa}).items(),
        f"Over {count_of(found.compared, 'episode')} of {count_of(found.tasks, 'task')}; {apart} more got no "
        "verdict and are left out.",
        f"95 % bootstrap over tasks ({stats.RESAMPLES:,} resamples). Positive: success. "
        "Truth: the environment's own reward of 1.",
    )


def cohens_kappa(counts: Doubles) -> Doubles:
    """κ = (p_o − p_e) / (1 − p_e) (Cohen 1960) of [..., 4] as counted above; NaN if both name one class only."""
    true_yes, false_yes, false_no, true_no = np.moveaxis(counts, -1, 0)
    total = counts.sum(axis=-1)
    chance = (true_yes + false_yes) * (true_yes + false_no) + (false_no + true_no) * (false_yes + true_no)
    return share((true_yes + true_no) * total - chance, total**2 - chance)
