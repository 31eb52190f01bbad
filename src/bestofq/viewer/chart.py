"""An episode's scores over its steps as a picture (Best-of-Q, Fig. 12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from bestofq.store.records import StepSummary
from bestofq.viewer.steps import Scores


@dataclass(frozen=True, kw_only=True)
class Column:
    """One step's column in the chart; x and y in the chart's own units."""

    index: int
    x: float
    taken: float
    explored: bool
    others: tuple[float, ...]
    about: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """V, the chosen score and the others' over steps (Best-of-Q, Fig. 12)."""

    columns: tuple[Column, ...]
    path: str
    values: str
    rules: tuple[tuple[float, str], ...]
    width: float = 1000.0
    height: float = 132.0
    top: float = 8.0
    bottom: float = 8.0

    @property
    def column_width(self) -> float:
        return self.width / max(1, len(self.columns))

    @classmethod
    def of(cls, steps: Sequence[StepSummary]) -> "Chart | None":
        """None where there is nothing to compare."""
        decisions = [step.decision for step in steps]
        scores = Scores.of(decisions)
        values = [d.state_value if scores.values else None for d in decisions]  # V beside what it is the value of
        every = [*(s for d in decisions for s in d.scores), *(v for v in values if v is not None)]
        if not scores.told or not all(map(isfinite, every)):
            return None
        low, high = min(every), max(every)
        spread = (high - low) or 1.0
        low, high = low - 0.06 * spread, high + 0.06 * spread
        wide = cls.width / len(steps)

        def y(value: float) -> float:
            return round(cls.top + (cls.height - cls.top - cls.bottom) * (high - value) / (high - low), 1)

        x = [round(wide * (index + 0.5), 1) for index in range(len(steps))]
        columns = tuple(
            Column(
                index=step.index,
                x=x[at],
                taken=y(step.decision.scores[step.decision.chosen]),
                explored=step.decision.explored,
                others=tuple(y(s) for i, s in enumerate(step.decision.scores) if i != step.decision.chosen),
                about=f"Step {step.index + 1}: {step.decision.candidate.label}",
            )
            for at, step in enumerate(steps)
        )
        told = [(x[at], y(value)) for at, value in enumerate(values) if value is not None]
        ticks = [low + (high - low) * part for part in (0.1, 0.5, 0.9)]
        return cls(
            columns=columns,
            path=" ".join(f"{column.x},{column.taken}" for column in columns),
            values=" ".join(f"{a},{b}" for a, b in told),
            rules=tuple((y(value), f"{value:.2f}") for value in ticks),
        )
