"""What figures are drawn with: shapes as SVG text, and a plot's axes. All texts are escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, log10

from markupsafe import Markup

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

    def points(self, values: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(self.at_x(x), self.at_y(y)) for x, y in values]

    def whisker(self, x: float, low: float, high: float, style: str = "whisker") -> Markup:
        """An upright line."""
        return line(self.at_x(x), self.at_y(low), self.at_x(x), self.at_y(high), style)

    def dot(self, x: float, y: float, style: str, title: str, *, radius: float = 3.4) -> Markup:
        """A point that says `title` where the pointer rests on it."""
        circle = Markup('<circle cx="{}" cy="{}" r="{}" class="{}"><title>{}</title></circle>')
        return circle.format(self.at_x(x), self.at_y(y), radius, style, title)

    def curve(self, values: Iterable[tuple[float, float]], style: str) -> Markup:
        return shape("polyline", self.points(values), style)

    def band(self, bounds: Sequence[tuple[float, float, float]], style: str) -> Markup:
        """The area between the lower and the upper bounds, of (x, low, high) from left to right."""
        edge = [*((x, high) for x, _, high in bounds), *((x, low) for x, low, _ in reversed(bounds))]
        return shape("polygon", self.points(edge), f"band {style}")

    def rows(self, ticks: Iterable[tuple[float, str]]) -> list[Markup]:
        """Ruled lines with their labels."""
        found = []
        for value, label in ticks:
            y = self.at_y(value)
            found += [line(self.left, y, self.width - self.right, y, "rule"), text(self.left - 8, y + 4, label, "end")]
        return found

    def columns(self, ticks: Iterable[tuple[float, str]], title: str) -> list[Markup]:
        """Labels below the plot, and what the axis is."""
        found = [text(self.at_x(v), self.height - self.bottom + 18, label, "middle") for v, label in ticks]
        return [*found, text((self.left + self.width - self.right) / 2, self.height - 4, title, "middle")]


def axis(rates: Iterable[float]) -> tuple[float, float, float]:
    """Floor, ceiling and gap of the ruled lines: 0 to the first ruled line above all rates, at most 1."""
    top = max(*rates, 0.05)
    gap = 0.05 if top <= 0.25 else 0.1 if top <= 0.5 else 0.2
    return 0.0, min(1.0, ceil(round(top / gap, 6)) * gap), gap


def rate_ticks(ruled: tuple[float, float, float]) -> list[tuple[float, str]]:
    """The ruled lines of an `axis` of rates, with their labels."""
    floor, ceiling, gap = ruled
    levels = [floor + tick * gap for tick in range(round((ceiling - floor) / gap) + 1)]
    return [(rate, f"{100 * rate:.0f} %") for rate in levels]


def round_step(about: float) -> int:
    """1, 2 or 5 times a power of ten, at least `about` and at least 1."""
    power: int = 10 ** int(log10(max(about, 1)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= about)


def nice_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers that reach from at most `low` to at least `high`, some `about` of them."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** (ceil(log10(span / about)) - 1)
    gap = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power * about >= span)
    first = int(low // gap)
    return [round(n * gap, 10) for n in range(first, first + about + 3) if (n - 1) * gap < high]


def shortened(words: str, length: int) -> str:
    return words if len(words) <= length else words[: length - 1] + "…"


def text(x: float, y: float, words: str, style: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, style, words)


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(x1, y1, x2, y2, style)


def bar(x: float, y: float, width: float, height: float, style: str) -> Markup:
    rect = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3" class="{}"/>')
    return rect.format(x, y, max(width, 0), height, style)


def shape(kind: str, points: Iterable[tuple[float, float]], style: str) -> Markup:
    path = " ".join(f"{x},{y}" for x, y in points)
    return Markup("<{0} points='{1}' class='{2}'/>").format(Markup(kind), path, style)


def legend(entries: Sequence[tuple[str, str]], *, left: float, pitch: float = 150, y: float = 12) -> list[Markup]:
    """Dots of a style with what they stand for, side by side."""
    dot, found = Markup('<circle cx="{}" cy="{}" r="4" class="{}"/>'), []
    for number, (style, name) in enumerate(entries):
        at = left + pitch * number
        found += [dot.format(at + 5, y, style), text(at + 14, y + 4, name, "name")]
    return found


def svg(parts: Iterable[Markup], height: float, title: str, *, width: float = WIDTH) -> Markup:
    """The figure, with its style: a whole SVG file."""
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" class="figure" role="img" aria-label="{}">'
        "<title>{}</title>{}{}</svg>"
    ).format(width, height, title, title, _STYLE_ELEMENT, Markup("").join(parts))


def inline(figure: Markup) -> Markup:
    """For a page that has `STYLE` itself."""
    return Markup(figure.replace(_STYLE_ELEMENT, ""))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture for a page: `name` names its file."""

    name: str
    caption: str
    svg: Markup  # stands alone

    @property
    def inline(self) -> Markup:
        """For a page that has the figures' style itself."""
        return inline(self.svg)
