"""The learning curve of Best-of-Q's recipe (Best-of-Q, Figs. 4 and 8) from its runs in a store."""

from bestofq.reports import stats
from bestofq.reports.figures import CurvePoint
from bestofq.reports.rows import BASELINE
from bestofq.reports.stats import attempts_of
from bestofq.store.records import DEV_BASE, SEED_RUN, cycle_run, dev_run
from bestofq.store.store import Store


def dev_curve(store: Store) -> list[CurvePoint]:
    """Success of each Q-function on dev tasks (or the next cycle's training tasks) by episodes learned from (Fig. 4).
    It ends before a pass without verdicts; empty without the recipe's runs."""
    names = {run.name for run in store.runs()}
    points: list[CurvePoint] = []
    seen = won = 0
    for cycle in range(len(names)):
        learned = store.summaries(run=cycle_run(cycle) if cycle else SEED_RUN)
        seen, won = seen + len(learned), won + sum(episode.success for episode in learned)
        measured = next((name for name in (dev_run(cycle), cycle_run(cycle + 1)) if name in names), None)
        attempts = attempts_of(store.summaries(run=measured, agent="best-of-q")) if measured else []
        if not attempts:
            break
        rate, bounds = stats.success_rate(attempts).mean, stats.success_interval(attempts)
        points.append(CurvePoint(episodes=seen, successes=won, success=rate, low=bounds.low, high=bounds.high))
    return points


def dev_base(store: Store) -> tuple[str, float] | None:
    """Prompting on the curve's dev tasks, and its success; None where no such pass was made."""
    attempts = attempts_of(store.summaries(run=DEV_BASE, agent=BASELINE))
    return (BASELINE, stats.success_rate(attempts).mean) if attempts else None
