"""Success of Best-of-Q by the episodes that it learned from (Figs. 4 and 8)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from bestofq.core.frozen import FrozenModel
from bestofq.reports import stats
from bestofq.reports.report import Report
from bestofq.reports.rows import BASELINE
from bestofq.reports.svg import TEMPLATES, Figure, Plot, figure, nice_ticks, rate_ticks
from bestofq.store.records import SEED_RUN, cycle_run
from bestofq.store.store import Store

DEV_BASE = "dev-base"
"""The run of Prompting on the dev tasks."""
TEMPLATE = TEMPLATES.from_string(Path(__file__).with_name("curve.jinja").read_text("utf-8"))


class CurvePoint(FrozenModel):
    """One point of the learning curve (Best-of-Q, Fig. 4): rates in [0, 1], `low` and `high` of an interval."""

    episodes: int  # in the training set
    success: float
    low: float
    high: float
    agent: str = "Best-of-Q"
    successes: int  # successful ones among the episodes


def learning_curve_svg(
    points: Sequence[CurvePoint],
    *,
    baseline: tuple[str, float] | None = None,
    by: Literal["episodes", "successes"] = "episodes",
) -> Markup:
    """Success against episodes in the training set, with a dashed line for the baseline's name and success (Fig. 4); by
    `successes` against the successful ones among them (Fig. 8, b and d). It needs a point."""
    known = sorted(((getattr(p, by), p) for p in points), key=lambda one: one[0])
    unit = "episodes" if by == "episodes" else "successful episodes"
    rates = rate_ticks(y for p in points for y in (p.success, p.high, baseline[1] if baseline else 0.0))
    last = max(known[-1][0], 1)
    return figure(
        TEMPLATE,
        f"Learning curve: success against {unit} in the training set",
        plot=Plot(x=(0, last), y=(0, rates[-1][0])),
        rates=rates,
        ticks=[(number, f"{number:,.0f}") for number in nice_ticks(0, max(last, 5)) if number <= last],
        unit=unit,
        baseline=baseline,
        known=known,
        drawn=[(at, p.success) for at, p in known],
        agent=points[0].agent,
    )


def dev_run(cycle: int) -> str:
    """Return the run over dev tasks by the Q-function of this cycle."""
    return f"dev-q{cycle}"


def dev_curve(store: Store) -> list[CurvePoint]:
    """Success of each Q-function on dev tasks, or on the next cycle's training tasks, by the episodes that it learned
    from (Fig. 4). It ends before a pass without verdicts, and is empty without the recipe's runs."""
    names = {run.name for run in store.runs()}
    points: list[CurvePoint] = []
    seen = won = 0
    for cycle in range(len(names)):
        learned = store.summaries(run=cycle_run(cycle) if cycle else SEED_RUN)
        seen, won = seen + len(learned), won + sum(episode.success for episode in learned)
        measured = next((name for name in (dev_run(cycle), cycle_run(cycle + 1)) if name in names), None)
        tries = stats.attempts_of(store.summaries(run=measured, agent="best-of-q")) if measured else None
        if not tries:
            break
        rate, bounds = stats.success_rate(tries).mean, stats.success_interval(tries)
        points.append(CurvePoint(episodes=seen, successes=won, success=rate, low=bounds.low, high=bounds.high))
    return points


def dev_base(store: Store) -> tuple[str, float] | None:
    """Prompting on the curve's dev tasks, and its success; None if no such pass was made."""
    tries = stats.attempts_of(store.summaries(run=DEV_BASE, agent=BASELINE))
    return (BASELINE, stats.success_rate(tries).mean) if tries else None


def add_curves(found: Report, store: Store) -> Report:
    """The report with the learning curves, if the recipe was measured."""
    if not (curve := dev_curve(store)):
        return found
    base = dev_base(store)
    svgs = (learning_curve_svg(curve, baseline=base), learning_curve_svg(curve, baseline=base, by="successes"))
    figures = [
        Figure("curve", "Success by episodes learned from (Fig. 4)", svgs[0]),
        Figure("curve-successes", "Success by successful episodes (Fig. 8)", svgs[1]),
    ]
    return replace(found, figures=[*found.figures, *figures])
