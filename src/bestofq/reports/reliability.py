"""How reliable agents are: pass@1, pass@k and the variance within tasks (Best-of-Q, Appendix F, Fig. 9)."""

from collections.abc import Sequence

from bestofq.core.noun import Noun
from bestofq.reports import passes, stats
from bestofq.reports.origin import Origin, origins
from bestofq.reports.rows import rows_of
from bestofq.reports.sheet import Column, Row, Sheet
from bestofq.reports.stats import Attempt, Measure
from bestofq.reports.table import attempts_of
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


class Pass(Noun):
    """One agent with k tries a task."""

    agent: str
    k: int
    tasks: int  # done k times or more
    solved: Measure
    variance: Measure  # mean of the tasks' variances; needs more than k runs of a task
    biased: bool  # `variance` is the plug-in at some task, for want of 2k runs


def reliability(attempts: dict[str, list[Attempt]], *, most: int | None = None) -> list[Pass]:
    """Of each agent pass@1 to pass@k, k up to the runs of its tasks, at most `most`."""
    found = []
    for agent, tried in attempts.items():
        runs = [sum(a.task == task for a in tried) for task in {a.task for a in tried}]
        for k in range(1, min(max(runs, default=0), most or max(runs, default=0)) + 1):
            found.append(
                Pass(
                    agent=agent,
                    k=k,
                    tasks=sum(done >= k for done in runs),
                    solved=passes.pass_at(tried, k),
                    variance=passes.pass_variance(tried, k),
                    biased=any(k < done < 2 * k for done in runs),
                )
            )
    return found


def reliability_sheet(store: Store, episodes: Sequence[EpisodeSummary], *, most: int | None = None) -> Sheet:
    """Fig. 9's numbers for the agents of these episodes, a row each of `rows_of`."""
    named = rows_of(store, episodes).named(episodes)
    made = origins(store, named)
    attempts = {agent: attempts_of([e for e in named if e.agent == agent]) for agent in made}
    return pass_sheet(reliability(attempts, most=most), made)


def pass_sheet(rows: Sequence[Pass], made: dict[str, Origin]) -> Sheet:
    return Sheet(
        name="reliability",
        title="pass@k and variance within tasks (Best-of-Q, Fig. 9)",
        columns=(
            Column(name="agent"),
            Column(name="k"),
            Column(name="tasks"),
            Column(name="pass@k", percent=True),
            Column(name="task variance", digits=3),
        ),
        rows=tuple(
            Row(cells=(row.agent, row.k, row.tasks, row.solved, row.variance), origin=made.get(row.agent))
            for row in rows
        ),
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
