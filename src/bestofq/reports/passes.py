"""pass@k and its variance within tasks (Best-of-Q, Appendix F, Fig. 9)."""

from collections.abc import Callable, Sequence
from math import comb

from bestofq.reports.stats import RESAMPLES, UNIT, Attempt, Measure, Tally, by_task, ratio


def pass_at(attempts: Sequence[Attempt], k: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Measure:
    """Share of tasks that one of k tries solves (Appendix F, Fig. 9), over the tasks done k times or more.

    Per task 1 − C(failures, k) / C(runs, k): the mean over every choice of k of its runs, unbiased (Chen et al. 2021).
    """
    return ratio(pass_tally(attempts, k), span=UNIT, resamples=resamples, seed=seed)


def pass_variance(attempts: Sequence[Attempt], k: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Measure:
    """The "mean of variances" of pass@k (Fig. 9) over the tasks done more than k times; k = 1: `task_variance`.

    A task that k tries miss with probability m = qᵏ has variance m − m². Unbiased from f failures in n ≥ 2k runs:
    C(f, k) / C(n, k) − C(f, 2k) / C(n, 2k), which for k = 1 is the variance with n − 1. For k < n < 2k the plug-in of
    m = C(f, k) / C(n, k), biased downwards; for n = k that is 0 whatever the runs brought, and so left out.
    """
    return ratio(variance_tally(attempts, k), span=(0.0, 0.5), resamples=resamples, seed=seed)


def pass_tally(attempts: Sequence[Attempt], k: int) -> Tally:
    """What `pass_at` is the ratio of."""
    return _of_tasks(attempts, k, lambda runs, lost: 1 - comb(lost, k) / comb(runs, k))


def variance_tally(attempts: Sequence[Attempt], k: int) -> Tally:
    """What `pass_variance` is the ratio of."""

    def variance(runs: int, lost: int) -> float:
        missed = comb(lost, k) / comb(runs, k)
        return missed - (comb(lost, 2 * k) / comb(runs, 2 * k) if runs >= 2 * k else missed**2)

    return _of_tasks(attempts, k + 1, variance)


def _of_tasks(attempts: Sequence[Attempt], least: int, of_task: Callable[[int, int], float]) -> Tally:
    """`of_task` (runs, failures) of each task done `least` times or more."""
    runs = {task: [not a.success for a in tried] for task, tried in by_task(attempts).items()}
    return {task: (of_task(len(lost), sum(lost)), 1.0) for task, lost in runs.items() if len(lost) >= least}
