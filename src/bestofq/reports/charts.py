"""The diagnostics' figures: pass@k, values over steps, calibration (headline: `figures.py`)."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.reports.calibration import Calibration
from bestofq.reports.figures import bars_svg
from bestofq.reports.reliability import Pass
from bestofq.reports.rows import BASELINE
from bestofq.reports.svg import WIDTH, Plot, figure, nice_ticks, shorten
from bestofq.reports.values import ValuePath


def reliability_svg(rows: Sequence[Pass]) -> Markup:
    """pass@k of each agent with its interval; its label has σ², the mean of the tasks' variances (Fig. 9)."""

    def name(row: Pass) -> str:
        variance = "" if row.variance.value is None else f", σ² {row.variance.value:.3f}"
        return f"{shorten(row.agent, 18)} @{row.k}{variance}"

    return bars_svg([(name(row), row.solved) for row in rows], title="pass@k", baseline=BASELINE, left=220, letters=32)


def values_svg(
    path: ValuePath,
    *,
    size: tuple[float, float] = (WIDTH, 300),
    now: int | None = None,
    to: Callable[[int], str | None] | None = None,
) -> Markup:
    """V dashed, what was taken solid, the other candidates as dots, explored steps hollow (Best-of-Q, Fig. 12). The
    step `now` is shaded; `to` gives a step's address, so that a click on it leads there.

    InputError when the episode holds no value.
    """
    values = [v for s in path.steps for v in (s.state_value, s.taken, *s.others) if v is not None]
    if not values:
        raise InputError(f"episode {path.episode} holds no value: its scorer gave none, or it has no step")
    ticks = nice_ticks(min(values), max(values))
    plot = Plot(x=(0, max(len(path.steps) - 1, 1)), y=(ticks[0], ticks[-1]), right=26, width=size[0], height=size[1])
    every = max(1, -(-len(path.steps) // 15))
    return figure(
        "values",
        f"Values over the steps of {path.agent} on {path.task}",
        plot=plot,
        path=path,
        now=now,
        to=to,
        column=(plot.at_x(1) - plot.at_x(0)) or 1.0,
        rows=[(tick, f"{tick:g}") for tick in ticks],
        columns=[(s.index, str(s.index + 1)) for s in path.steps if s.index % every == 0],
        states=[(s.index, s.state_value) for s in path.steps if s.state_value is not None],
        taken=[(s.index, s.taken) for s in path.steps if s.taken is not None],
    )


def calibration_svg(found: Calibration) -> Markup:
    """Outcome against Q, with intervals; below it how many steps have such a Q. InputError without a step."""
    if not found.bins:
        raise InputError(f"calibration of {found.agent}: there is no step with a value")
    plot = Plot(x=(0, 1), y=(0, 1), height=400, left=52, top=14, bottom=110, right=90)
    bins = [(min(max(held.q, 0), 1), held) for held in found.bins]
    return figure(
        "calibration",
        f"Calibration of Q: {found.agent}",
        plot=plot,
        found=found,
        bins=bins,
        fifths=[(n / 5, f"{n / 5:.1f}") for n in range(6)],
        drawn=[(q, held.outcome.value) for q, held in bins],
        most=max(held.steps for held in found.bins),
        what="success" if found.discount == 1 else f"{found.discount:g}^(steps left) · success",
    )
