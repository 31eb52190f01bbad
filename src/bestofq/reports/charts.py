"""The diagnostics' figures: pass@k, values over steps, calibration (headline: `figures.py`)."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.reports.calibration import Calibration
from bestofq.reports.figures import bars_svg
from bestofq.reports.reliability import Pass
from bestofq.reports.stats import Measure
from bestofq.reports.svg import WIDTH, Plot, bar, legend, line, nice_ticks, shortened, svg, text
from bestofq.reports.values import ValuePath


def reliability_svg(rows: Sequence[Pass]) -> Markup:
    """pass@k of each agent with its interval; beside it σ², the mean of the tasks' variances (Fig. 9)."""

    def name(row: Pass) -> str:
        variance = "" if row.variance.value is None else f", σ² {row.variance.value:.3f}"
        return f"{shortened(row.agent, 14)} @{row.k}{variance}"

    return bars_svg([(name(row), row.solved) for row in rows], title="pass@k")


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
    column = (plot.at_x(1) - plot.at_x(0)) or 1.0
    tall = plot.height - plot.bottom - plot.top
    parts = [] if now is None else [bar(plot.at_x(now) - column / 2, plot.top, column, tall, "now")]
    parts += plot.rows([(tick, f"{tick:g}") for tick in ticks])
    every = max(1, -(-len(path.steps) // 15))
    parts += plot.columns([(s.index, str(s.index + 1)) for s in path.steps if s.index % every == 0], "step")
    parts += legend((("key-state", "V"), ("s0", "taken"), ("other", "other candidates")), left=plot.left, pitch=80)
    outcome = "good" if path.outcome == "success" else "not-chosen"
    parts += [bar(plot.width - 120, 3, 10, 10, outcome), text(plot.width - 104, 12, path.outcome, "name")]
    for step in path.steps:
        parts += [plot.dot(step.index, q, "other", f"another: {q:.3f}", radius=3) for q in step.others]
    for style, picked in (("state", [s.state_value for s in path.steps]), ("line s0", [s.taken for s in path.steps])):
        parts.append(plot.curve(((at, value) for at, value in enumerate(picked) if value is not None), style))
    for step in path.steps:
        if step.taken is not None:
            title = f"step {step.index + 1}, {step.taken:.3f}: {step.label}"
            style = "hollow" if step.explored else "s0"
            parts.append(plot.dot(step.index, step.taken, style, title))
    if to is not None:
        link = Markup('<a href="{}" tabindex="-1"><title>Step {}: {}</title>{}</a>')
        for step in path.steps:
            hit = bar(plot.at_x(step.index) - column / 2, 0, column, plot.height, "hit")
            parts.append(link.format(to(step.index), step.index + 1, step.label, hit))
    title = f"Values over the steps of {path.agent} on {path.task}"
    return svg(parts, plot.height, title, width=plot.width)


def calibration_svg(found: Calibration) -> Markup:
    """The reliability curve: outcome against Q, with intervals; below it how many steps have such a Q. InputError
    without a step."""
    if not found.bins:
        raise InputError(f"calibration of {found.agent}: there is no step with a value")
    plot = Plot(x=(0, 1), y=(0, 1), height=400, left=52, top=14, bottom=110, right=90)
    fifths = [(n / 5, f"{n / 5:.1f}") for n in range(6)]
    parts = plot.rows(fifths)
    parts.append(line(plot.at_x(0), plot.at_y(0), plot.at_x(1), plot.at_y(1), "diagonal"))
    most = max(held.steps for held in found.bins)
    foot = plot.height - 44
    for held in found.bins:
        q, outcome = min(max(held.q, 0), 1), held.outcome
        if outcome.value is not None:
            if outcome.interval is not None:
                parts.append(plot.whisker(q, outcome.interval.low, outcome.interval.high))
            title = f"Q {held.q:.3f}: outcome {outcome.value:.3f} over {held.steps:,} steps"
            parts.append(plot.dot(q, outcome.value, "s0", title, radius=4))
        tall = 50 * held.steps / most
        left, right = plot.at_x(held.low) + 1, plot.at_x(held.high) - 1
        parts.append(bar(left, foot - tall, right - left, tall, "bar plain"))
    curve = [(min(max(b.q, 0), 1), b.outcome.value) for b in found.bins if b.outcome.value is not None]
    parts.append(plot.curve(curve, "line s0"))
    parts += [text(plot.at_x(v), plot.height - 26, label, "middle") for v, label in fifths]
    what = "success" if found.discount == 1 else f"{found.discount:g}^(steps left) · success"
    axes = f"x: Q of the action taken; y: {what}; bars: steps"
    parts.append(text((plot.left + WIDTH - plot.right) / 2, plot.height - 6, axes, "middle"))
    beside = WIDTH - plot.right + 12
    for y, name, measure in ((30, "ECE", found.ece), (86, "bias", found.bias)):
        value = "–" if measure.value is None else f"{measure.value:.3f}"
        parts += [text(beside, y, name, ""), text(beside, y + 18, value, "value")]
        if (bounds := measure.interval) is not None:
            parts.append(text(beside, y + 34, f"[{bounds.low:.2f}, {bounds.high:.2f}]", ""))
    return svg(parts, plot.height, f"Calibration of Q: {found.agent}")


def distances_svg(found: Calibration) -> Markup:
    """Mean Q by steps left, of episodes that succeeded and that failed, with bands. InputError without a step."""
    if not found.distances:
        raise InputError(f"Q by step from the end of {found.agent}: there is no step with a value")
    measures = [m for at in found.distances for m in (at.succeeded, at.failed)]
    levels = [m.value for m in measures if m.value is not None]
    levels += [b for m in measures if m.interval for b in (m.interval.low, m.interval.high)]
    ticks = nice_ticks(min(*levels, 0.0), max(levels))
    farthest = found.distances[-1].left
    plot = Plot(x=(-max(farthest, 1), 0), y=(ticks[0], ticks[-1]))
    parts = plot.rows([(tick, f"{tick:g}") for tick in ticks])
    parts += plot.columns([(-at.left, str(at.left)) for at in found.distances], "steps left after this one")
    for style, name in (("s1", "succeeded"), ("s0", "failed")):
        known: list[tuple[int, Measure]] = [(-at.left, getattr(at, name)) for at in reversed(found.distances)]
        drawn = [(x, measure.value) for x, measure in known if measure.value is not None]
        bounds = [(x, measure.interval.low, measure.interval.high) for x, measure in known if measure.interval]
        parts.append(plot.band(bounds, style))
        parts.append(plot.curve(drawn, f"line {style}"))
        parts += [plot.dot(x, value, style, f"{name}, {-x:g} left: {value:.3f}") for x, value in drawn]
    parts += legend((("s1", "succeeded"), ("s0", "failed")), left=plot.left, pitch=100)
    return svg(parts, plot.height, f"Q by step from the end: {found.agent}")
