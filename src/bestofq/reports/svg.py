"""What figures are drawn with: their templates, which escape all texts, and a plot's axes."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, log10

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from bestofq.reports.naming import shown

PALETTE = files("bestofq.reports").joinpath("templates/palette.css").read_text("utf-8")
"""The colours of every page of ours, light and dark."""
STYLE = files("bestofq.reports").joinpath("templates/figure.css").read_text(encoding="utf-8")
_STYLE_ELEMENT = Markup("<style>{}</style>").format(Markup(STYLE))
WIDTH = 560


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Where values fall on the paper; `x` and `y` are the ranges of the axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float = 300
    left: float = 46
    right: float = 18
    top: float = 34
    bottom: float = 40
    width: float = WIDTH

    def at_x(self, value: float) -> float:
        low, high = self.x
        return round(self.left + (self.width - self.left - self.right) * (value - low) / ((high - low) or 1), 1)

    def at_y(self, value: float) -> float:
        low, high = self.y
        return round(self.top + (self.height - self.top - self.bottom) * (high - value) / ((high - low) or 1), 1)


def nice_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers that reach from at most `low` to at least `high`, some `about` of them."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** (ceil(log10(span / about)) - 1)
    gap = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power * about >= span)
    first = int(low // gap)
    return [round(n * gap, 10) for n in range(first, first + about + 3) if (n - 1) * gap < high]


def rate_ticks(rates: Iterable[float]) -> list[tuple[float, str]]:
    """The ruled lines of shares, with their labels: from 0 to the first round number above all rates, at most 1."""
    return [(rate, f"{100 * rate:.0f} %") for rate in nice_ticks(0, min(1.0, max([*rates, 0.05])))]


def shorten(words: str, length: int) -> str:
    return words if len(words) <= length else words[: length - 1] + "…"


def load_templates(package: str) -> Environment:
    loader = PackageLoader(package)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


TEMPLATES = load_templates("bestofq.reports")
TEMPLATES.globals.update(percent=lambda share: f"{100 * share:.1f} %", style=_STYLE_ELEMENT, width=WIDTH)
TEMPLATES.filters.update(shortened=shorten, shown=shown)


def figure(template: str | Template, title: str, **values: object) -> Markup:
    """The figure, with its style: a whole SVG file. With a `plot`, as large as that."""
    drawn = TEMPLATES.get_template(template if isinstance(template, Template) else f"{template}.jinja")
    if isinstance(plot := values.get("plot"), Plot):
        values = {"width": plot.width, "height": plot.height, **values}
    return Markup(drawn.render(values, title=title))


def inline(figure: Markup) -> Markup:
    """For a page that has `STYLE` itself."""
    return Markup(figure.replace(_STYLE_ELEMENT, ""))


@dataclass(frozen=True)
class Figure:
    """A picture for a page: `name` names its file."""

    name: str
    caption: str
    svg: Markup  # stands alone
