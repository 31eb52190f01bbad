"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

A figure is a whole SVG file with its style; `svg.inline` removes the style for pages that have it. All texts are
escaped. The figure of costs is in `costs`.
"""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from bestofq.core.decision import Episode
from bestofq.core.errors import InputError
from bestofq.reports.naming import shown, tones
from bestofq.reports.stats import Measure
from bestofq.reports.svg import WIDTH, Plot, figure, nice_ticks
from bestofq.reports.values import ValuedStep, read_values


def bars_svg(
    rows: Sequence[tuple[str, Measure]],
    *,
    title: str = "Success rate of each agent",
    references: Sequence[tuple[str, float]] = (),
    baseline: str | None = None,
    over: str = "tasks",
) -> Markup:
    """Shares as bars, one a row, with 95 % intervals `over` these as whiskers (Agent Q, Figs. 3 and 6); colours by
    `naming.tones`, `references` are lines. InputError without a defined row."""
    tone = tones([name for name, _ in rows], baseline)
    drawn = [(shown(name), m.value, m.interval, tone[name]) for name, m in rows if m.value is not None]
    if not drawn:
        raise InputError(f"{title}: there is nothing to draw, no row has a value")
    letters = min(36, max(20, *(len(shown(name)) for name, _ in rows)))
    pitch, top, left = 34, 6 + (18 if references else 0), 150 + 7 * (letters - 20)
    sizes = {"pitch": pitch, "top": top, "left": left, "wide": WIDTH - left - 68, "letters": letters}
    height = top + pitch * len(drawn) + 14
    return figure("bars", title, height=height, rows=drawn, references=references, over=over, **sizes)


def values_svg(
    episode: Episode,
    *,
    steps: Sequence[ValuedStep] | None = None,
    outcome: str | None = None,
    size: tuple[float, float] = (WIDTH, 300),
    now: int | None = None,
    to: Callable[[int], str | None] | None = None,
) -> Markup:
    """V dashed, what was taken solid, the other candidates as dots, explored steps hollow (Best-of-Q, Fig. 12).

    `steps` and `outcome` are the episode's own by default. The step `now` is shaded; `to` gives a step's address, so
    that a click on it leads there. InputError without a value.
    """
    steps = read_values(episode) if steps is None else steps
    values = [v for s in steps for v in (s.state_value, s.taken, *s.others) if v is not None]
    if not values:
        raise InputError(f"episode {episode.id} holds no value: its scorer gave none, or it has no step")
    ticks = nice_ticks(min(values), max(values))
    plot = Plot(x=(0, max(len(steps) - 1, 1)), y=(ticks[0], ticks[-1]), right=26, width=size[0], height=size[1])
    every = max(1, -(-len(steps) // 15))
    return figure(
        "values",
        f"Values over the steps of {episode.agent} on {episode.task.id}",
        plot=plot,
        steps=steps,
        outcome=outcome or episode.verdict.outcome,
        now=now,
        to=to,
        column=(plot.at_x(1) - plot.at_x(0)) or 1.0,
        rows=[(tick, f"{tick:g}") for tick in ticks],
        columns=[(s.index, str(s.index + 1)) for s in steps if s.index % every == 0],
        states=[(s.index, s.state_value) for s in steps if s.state_value is not None],
        taken=[(s.index, s.taken) for s in steps if s.taken is not None],
    )
