"""A step as it is drawn: candidates with their bars, boxes over the screenshot, the page's text with its marks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from bestofq.core.actions import Targeted
from bestofq.core.decision import Candidate, Decision, GateReading
from bestofq.core.gate import FAMILIARITY
from bestofq.core.observation import Box, Observation
from bestofq.reports.values import SCORE, Meaning, meaning_of_scores

_MARK = re.compile(r"(\[\d+\])")
TIE = 0.01  # scores that differ by less are as good as equal
_POINT = 16  # CSS pixels: the side of the box drawn around a point


class Range(NamedTuple):
    """The values that bars span."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Range":
        """Of an episode: from 0, or the least value if that is less, to the most."""
        finite = [value for value in values if isfinite(value)]
        low, high = min([0.0, *finite]), max(finite, default=1.0)
        return cls(low, high if high > low else low + 1.0)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def __or__(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


UNIT = Range(0.0, 1.0)
FED = "feedback: what the model that was asked, or a learned Q, thinks of it"


class Bar(NamedTuple):
    """A number with a name; `share` in [0, 1] is how much of the bar is full, None: no bar."""

    name: str
    words: str
    share: float | None
    about: str

    @classmethod
    def of(cls, name: str, value: float | None, span: Range, about: str) -> "Bar":
        if value is None or not isfinite(value):
            return cls(name, "–", None, about)
        return cls(name, f"{value:.3f}", min(1.0, max(0.0, span.share(value))), about)

    @classmethod
    def visits(cls, count: int, most: int, name: str = "visits") -> "Bar":
        return cls(name, str(count), count / max(1, most), "rollouts through it")


class CandidateView(NamedTuple):
    place: int  # from 0
    candidate: Candidate
    chosen: bool
    bars: tuple[Bar, ...]
    mark: int | None  # of the element it acts on
    box: Box | None


class ScoreTable(NamedTuple):
    """What the scores of an episode are, and the ranges of their bars and of V's.

    `informative` is False if all scores are alike and there is no V.
    """

    meaning: Meaning
    range: Range
    value_range: Range
    informative: bool

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> "ScoreTable":
        every = [score for decision in decisions for score in decision.scores]
        values = [d.state_value for d in decisions if d.state_value is not None]
        meaning = meaning_of_scores(decisions) or SCORE
        together = [*every, *values] if meaning.values else every
        informative = bool(values) or len(set(every)) > 1
        return cls(meaning, Range.of(together), Range.of(together if meaning.values else values), informative)

    def share_scale(self, other: "ScoreTable") -> "ScoreTable":
        """With bars as long as the other's of the same number, if the scores of both are the same kind."""
        if self.meaning != other.meaning:
            return self
        return self._replace(range=self.range | other.range, value_range=self.value_range | other.value_range)


def verdict(decision: Decision, scores: ScoreTable) -> str:
    if len(decision.candidates) == 1:
        return "One candidate: there was nothing to choose."
    if not scores.informative:
        return "The candidates are not scored."
    first, second, *_ = sorted(decision.scores, reverse=True)
    over = first - second
    said = f"{scores.meaning.name} {first:.3f}, {f'{over:+.3f}' if over >= 0.0005 else 'under 0.001'} over the second"
    if over == 0:
        said = f"{scores.meaning.name} {first:.3f}, as much as the second: a tie, which the earlier one wins"
    elif over < TIE and scores.meaning.values:
        said += ": a tie"
    if decision.explored:
        return f"The best has {said}. Another was taken, to explore."
    if decision.gate is not None and not decision.gate.open:
        return f"The best has {said}. {describe_gate(decision.gate)}"
    if decision.scores[decision.chosen] < first:
        return f"The best has {said}. The agent took another."
    return f"{said}." + (f" {describe_gate(decision.gate)}" if decision.gate else "")


def describe_gate(gate: GateReading) -> str:
    """Why the first candidate was or was not left."""
    known = FAMILIARITY[gate.level]
    if gate.threshold is None:
        return f"The gate is shut, because leaving the first candidate is not shown to help where {known}."
    state = "open" if gate.open else "shut"
    return (
        f"The gate is {state}: the best is {gate.margin:.3f} over the first, {gate.threshold:.3f} is needed; {known}."
    )


def candidate_views(decision: Decision, seen: Observation, scores: ScoreTable) -> list[CandidateView]:
    """All candidates, in the order they were proposed."""
    boxes, half = {element.mark: element.box for element in seen.elements}, _POINT / 2

    def bars(index: int) -> Iterator[Bar]:
        if scores.informative:
            yield Bar.of(scores.meaning.name, decision.scores[index], scores.range, scores.meaning.about)
        if decision.visits is not None:
            yield Bar.visits(decision.visits[index], max(decision.visits))
            if decision.feedback is not None:
                yield Bar.of("Q̂ feedback", decision.feedback[index], UNIT, FED)

    views = []
    for index, candidate in enumerate(decision.candidates):
        action = candidate.action
        mark, point = (action.mark, action.point) if isinstance(action, Targeted) else (None, None)
        box = Box(point.x - half, point.y - half, _POINT, _POINT) if point else boxes.get(mark or 0)
        views.append(CandidateView(index, candidate, index == decision.chosen, tuple(bars(index)), mark, box))
    return views


def is_inside(box: Box | None, seen: Observation) -> bool:
    width, height = viewport(seen)
    return box is not None and -box.width < box.x < width and -box.height < box.y < height


def viewport(seen: Observation) -> tuple[float, float]:
    """Width and height of the page's picture in CSS pixels; (0, 0) where there is none."""
    shot = seen.screenshot
    return (0.0, 0.0) if shot is None else (shot.width / shot.scale, shot.height / shot.scale)


def pieces(seen: Observation, views: Sequence[CandidateView]) -> list[tuple[str, str]]:
    """The page's text in pieces, each with its kind: `` (text), `mark`, `candidate` or `chosen`."""
    kinds = {f"[{element.mark}]": "mark" for element in seen.elements}
    for view in sorted(views, key=lambda view: view.chosen):
        kinds[f"[{view.mark}]"] = "chosen" if view.chosen else "candidate"
    return [(piece, kinds.get(piece, "")) for piece in _MARK.split(seen.text) if piece]
