"""How reliable agents are: pass@1, pass@k and the variance within tasks (Best-of-Q, Appendix F, Fig. 9)."""

from collections.abc import Callable, Mapping
from math import comb

from bestofq.reports import stats
from bestofq.reports.stats import UNIT, Counts, Quantity, Tries
from bestofq.reports.table import RowSource, Table, columns


def pass_table(attempts: Mapping[str, Tries], made: Mapping[str, RowSource]) -> Table:
    """pass@1 to pass@k of each agent, k up to the runs of its tasks."""
    rows = []
    for agent, tried in attempts.items():
        runs = tried.done.sum(axis=1).astype(int).tolist()
        for k in range(1, max(runs, default=0) + 1):
            solved = pass_at(tried, k)
            rows.append((agent, k, len(solved.counts), solved.measure, pass_variance(tried, k).measure))
    return Table.of(
        "reliability",
        "pass@k and variance within tasks (Best-of-Q, Fig. 9)",
        (*columns("agent", "k", "tasks", "pass@k %"), *columns("task variance", digits=3)),
        rows,
        "pass@k: one of k tries solves the task, unbiased over every choice of k runs. "
        f"95 % bootstrap over tasks ({stats.RESAMPLES:,} resamples).",
        "Task variance: mean over tasks of the variance of success, as in Fig. 9. Unbiased with 2k runs of a task or "
        "more; with fewer it is estimated too low.",
        made=made,
    )


def pass_at(tries: Tries, k: int) -> Quantity:
    """Share of tasks that one of k tries solves (Appendix F, Fig. 9), over the tasks done k times or more.

    For each task 1 − C(failures, k) / C(runs, k), the mean over every choice of k runs: unbiased (Chen et al. 2021).
    """
    return Quantity(_by_task(tries, k, lambda runs, lost: 1 - comb(lost, k) / comb(runs, k)), UNIT)


def pass_variance(tries: Tries, k: int) -> Quantity:
    """The "mean of variances" of pass@k (Fig. 9) over the tasks done more than k times.

    A task that k tries miss with probability m = qᵏ has variance m − m². Let f of its n runs fail. If n ≥ 2k, C(f, k) /
    C(n, k) − C(f, 2k) / C(n, 2k) is unbiased; for k = 1 it is the variance with n − 1. If k < n < 2k, m = C(f, k) /
    C(n, k) is plugged in, which is biased downwards. For n = k that would always be 0, so such tasks are left out.
    """

    def variance(runs: int, lost: int) -> float:
        missed = comb(lost, k) / comb(runs, k)
        return missed - (comb(lost, 2 * k) / comb(runs, 2 * k) if runs >= 2 * k else missed**2)

    return Quantity(_by_task(tries, k + 1, variance), (0.0, 0.5))


def _by_task(tries: Tries, least: int, function: Callable[[int, int], float]) -> Counts:
    """`function` (runs, failures) of each task done `least` times or more."""
    runs, won = (table.sum(axis=1).astype(int).tolist() for table in (tries.done, tries.won))
    counts = zip(tries.tasks, runs, won, strict=True)
    return {task: (function(done, done - good), 1.0) for task, done, good in counts if done >= least}
