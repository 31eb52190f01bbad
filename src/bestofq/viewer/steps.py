"""A step as it is drawn: candidates with their bars, boxes over the screenshot, the page's text with its marks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from bestofq.core.actions import Action, Targeted
from bestofq.core.decision import Candidate, Decision
from bestofq.core.observation import Box, Observation, Point
from bestofq.reports.scorers import FEEDBACK, SCORE, Meaning, Q, find_meaning

_MARK = re.compile(r"(\[\d+\])")
_SLACK = 0.25  # by which a learned Q may miss the range of what it estimates
TIE = 0.01  # scores that differ by less are as good as equal
_POINT = 16  # CSS pixels: the side of the box drawn around a point


@dataclass(frozen=True, kw_only=True)
class Range:
    """What the bars of an episode span: from 0, or the least value where that is less, to the most."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Range":
        finite = [value for value in values if isfinite(value)]
        low, high = min([0.0, *finite]), max(finite, default=1.0)
        return cls(low=low, high=high if high > low else low + 1.0)

    @classmethod
    def of_step(cls, values: Iterable[float]) -> "Range":
        """From somewhat below the least to the most, so that the bars of different values differ."""
        finite = [value for value in values if isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        return cls(low=low - max(high - low, TIE) / 6, high=max(high, low + TIE))

    def share(self, value: float) -> float:
        """Of the way from low to high."""
        return (value - self.low) / (self.high - self.low)

    def __or__(self, other: "Range") -> "Range":
        return Range(low=min(self.low, other.low), high=max(self.high, other.high))


UNIT = Range(low=0.0, high=1.0)
FED = "feedback: what the model that was asked, or a learned Q, thinks of it"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A number with a name; `share` in [0, 1] is how much of the bar is full, None: no bar."""

    name: str
    words: str
    share: float | None
    about: str = ""

    @classmethod
    def of(cls, name: str, value: float | None, range_: Range, about: str) -> "Bar":
        if value is None or not isfinite(value):
            return cls(name=name, words="–", share=None, about=about)
        return cls(name=name, words=f"{value:.3f}", share=min(1.0, max(0.0, range_.share(value))), about=about)

    @classmethod
    def visits(cls, count: int, most: int, name: str = "visits") -> "Bar":
        return cls(name=name, words=str(count), share=count / max(1, most), about="rollouts through it")


@dataclass(frozen=True, kw_only=True)
class CandidateView:
    index: int
    candidate: Candidate
    chosen: bool
    bars: tuple[Bar, ...]
    mark: int | None  # of the element it acts on
    box: Box | None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A box over the screenshot: of an element (`candidate` None), or of what a candidate acts on."""

    box: Box
    about: str
    label: str = ""
    candidate: int | None = None
    chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class ScoreTable:
    """What the scores of an episode are, as far as they tell, and the ranges of their bars and of V's.

    Older decisions do not name their scorer. With a V their scores are Q-values, unless one of them cannot be a sum of
    rewards in [0, 1]. `informative` is False if all are alike.
    """

    meaning: Meaning
    range: Range
    value_range: Range
    informative: bool

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> "ScoreTable":
        every = [score for decision in decisions for score in decision.scores]
        values = [d.state_value for d in decisions if d.state_value is not None]
        known = find_meaning(decisions)
        if known is None and values and all(-_SLACK <= score <= 1 + _SLACK for score in every):
            known = Q
        elif known is None and not values and any(used.role == "critic" for d in decisions for used in d.usage):
            known = FEEDBACK
        known = known or SCORE
        together = [*every, *values] if known.values else every
        return cls(
            meaning=known,
            range=Range.of(together),
            value_range=Range.of(together if known.values else values),
            informative=bool(values) or len(set(every)) > 1,
        )

    def share_scale(self, other: "ScoreTable") -> "ScoreTable":
        """With bars as long as the other's of the same number, where the scores of both are the same kind."""
        if self.meaning != other.meaning:
            return self
        return replace(self, range=self.range | other.range, value_range=self.value_range | other.value_range)


def verdict(decision: Decision, scores: ScoreTable) -> str:
    """How the scores decided, in a sentence or two."""
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
    if decision.scores[decision.chosen] < first:
        return f"The best has {said}. The agent took another."
    return f"{said}."


def candidate_views(
    decision: Decision,
    seen: Observation,
    scores: ScoreTable,
    *,
    span: Range | None = None,
) -> list[CandidateView]:
    """All candidates, in the order they were proposed; bars of their scores over `span`. Default: the episode's."""
    boxes, half = {element.mark: element.box for element in seen.elements}, _POINT / 2

    def bars(index: int, candidate: Candidate) -> Iterator[Bar]:
        if scores.informative:
            yield Bar.of(scores.meaning.name, decision.scores[index], span or scores.range, scores.meaning.about)
        if decision.visits is not None:
            yield Bar.visits(decision.visits[index], max(decision.visits))
            if decision.feedback is not None:
                yield Bar.of("Q̂ feedback", decision.feedback[index], UNIT, FED)

    return [
        CandidateView(
            index=index,
            candidate=candidate,
            chosen=index == decision.chosen,
            bars=tuple(bars(index, candidate)),
            mark=mark,
            box=boxes.get(mark or 0) if point is None else Box(point.x - half, point.y - half, _POINT, _POINT),
        )
        for index, candidate in enumerate(decision.candidates)
        for mark, point in [_where(candidate.action)]
    ]


def _where(action: Action) -> tuple[int | None, Point | None]:
    return (action.mark, action.point) if isinstance(action, Targeted) else (None, None)


def marks(seen: Observation, views: Sequence[CandidateView]) -> list[Mark]:
    """Boxes within the viewport: every element's, then the candidates', the chosen one on top."""
    width, height = viewport(seen)
    elements = [Mark(box=e.box, about=f"[{e.mark}] {e.role} {e.name}") for e in seen.elements if e.box]
    candidates = [
        Mark(box=v.box, label=str(v.index + 1), about=v.candidate.label, candidate=v.index, chosen=v.chosen)
        for v in sorted(views, key=lambda view: view.chosen)
        if v.box is not None
    ]
    boxes = ((mark, mark.box) for mark in (*elements, *candidates))
    return [m for m, b in boxes if b.x < width and b.y < height and b.x + b.width > 0 and b.y + b.height > 0]


def viewport(seen: Observation) -> tuple[float, float]:
    """Width and height of the page's picture in CSS pixels; (0, 0) where there is none."""
    shot = seen.screenshot
    return (0.0, 0.0) if shot is None else (shot.width / shot.scale, shot.height / shot.scale)


def pieces(seen: Observation, views: Sequence[CandidateView]) -> list[tuple[str, str]]:
    """The page's text in pieces, each with its kind: `` (text), `mark`, `candidate` or `chosen`."""
    kinds = {f"[{element.mark}]": "mark" for element in seen.elements}
    for view in sorted(views, key=lambda view: view.chosen):
        if view.mark is not None:
            kinds[f"[{view.mark}]"] = "chosen" if view.chosen else "candidate"
    return [(piece, kinds.get(piece, "")) for piece in _MARK.split(seen.text) if piece]
