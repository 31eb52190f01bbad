"""How reliable agents are: pass@1, pass@k and the variance within tasks (Best-of-Q, Appendix F, Fig. 9)."""

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import NamedTuple

from bestofq.reports import stats
from bestofq.reports.stats import UNIT, Attempts, Measure, Quantity, TaskCounts, Tries
from bestofq.reports.table import RowSource, Table, columns, rows_of


class Pass(NamedTuple):
    """One agent with k tries a task."""

    agent: str
    k: int
    tasks: int  # done k times or more
    solved: Measure
    variance: Measure  # mean of the tasks' variances; needs more than k runs of a task
    biased: bool  # `variance` is the plug-in at some task, for want of 2k runs


def reliability(attempts: Mapping[str, Attempts]) -> list[Pass]:
    """Of each agent pass@1 to pass@k, k up to the runs of its tasks."""
    found = []
    for agent, tried in attempts.items():
        runs = Tries.of(tried).done.sum(axis=1).astype(int).tolist()
        for k in range(1, max(runs, default=0) + 1):
            solved, variance = pass_at(tried, k), pass_variance(tried, k).measure
            biased = any(k < done < 2 * k for done in runs)
            found.append(Pass(agent, k, len(solved.counts), solved.measure, variance, biased))
    return found


def pass_table(rows: Sequence[Pass], made: Mapping[str, RowSource]) -> Table:
    return Table(
        name="reliability",
        title="pass@k and variance within tasks (Best-of-Q, Fig. 9)",
        columns=(*columns("agent", "k", "tasks", "pass@k %"), *columns("task variance", digits=3)),
        rows=rows_of(rows, made, "agent", "k", "tasks", "solved", "variance"),
        notes=(
            "pass@k: one of k tries solves the task, unbiased over every choice of k runs. "
            f"95 % bootstrap over tasks ({stats.RESAMPLES:,} resamples).",
            "Task variance: mean over tasks of the variance of success, as in Fig. 9; unbiased with 2k runs or more.",
            *(
                f"{row.agent}, k = {row.k}: with fewer than 2k runs of a task m(1 − m), m: share of the choices of k "
                "runs that miss; biased, it is too low."
                for row in rows
                if row.biased
            ),
        ),
    )


def pass_at(attempts: Attempts, k: int) -> Quantity:
    """Share of tasks that one of k tries solves (Appendix F, Fig. 9), over the tasks done k times or more. Per task 1 −
    C(failures, k) / C(runs, k): the mean over every choice of k of its runs, unbiased (Chen et al. 2021)."""
    return Quantity(_of_tasks(attempts, k, lambda runs, lost: 1 - comb(lost, k) / comb(runs, k)), UNIT)


def pass_variance(attempts: Attempts, k: int) -> Quantity:
    """The "mean of variances" of pass@k (Fig. 9) over the tasks done more than k times.

    A task that k tries miss with probability m = qᵏ has variance m − m². Unbiased from f failures in n ≥ 2k runs:
    C(f, k) / C(n, k) − C(f, 2k) / C(n, 2k), which for k = 1 is the variance with n − 1. For k < n < 2k the plug-in of
    m = C(f, k) / C(n, k), biased downwards; for n = k that is 0 whatever the runs brought, and so left out.
    """

    def variance(runs: int, lost: int) -> float:
        missed = comb(lost, k) / comb(runs, k)
        return missed - (comb(lost, 2 * k) / comb(runs, 2 * k) if runs >= 2 * k else missed**2)

    return Quantity(_of_tasks(attempts, k + 1, variance), (0.0, 0.5))


def _of_tasks(attempts: Attempts, least: int, of_task: Callable[[int, int], float]) -> TaskCounts:
    """`of_task` (runs, failures) of each task done `least` times or more."""
    tries = Tries.of(attempts)
    runs, won = (table.sum(axis=1).astype(int).tolist() for table in (tries.done, tries.won))
    counts = zip(tries.tasks, runs, won, strict=True)
    return {task: (of_task(done, done - good), 1.0) for task, done, good in counts if done >= least}
