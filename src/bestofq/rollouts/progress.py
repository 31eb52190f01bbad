"""A live line on a terminal, or a plain line now and then where there is none."""

from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from bestofq.core.decision import DECIDED, Outcome, Step, Verdict
from bestofq.core.usage import Usage
from bestofq.rollouts.console import console
from bestofq.store.records import EpisodeSummary

EVERY = 10.0  # seconds between plain lines where the console is no terminal


class Progress:
    """Hears what happens, as it happens; this one says nothing."""

    def begin(self, done: Sequence[EpisodeSummary], total: int) -> None: ...

    def step(self, step: Step) -> None: ...

    def episode(self, verdict: Verdict) -> None: ...


def bar(width: int = 40) -> Bar:
    """Of long steps that are no episodes: what is done, of how much, and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(width), MofNCompleteColumn(), TimeRemainingColumn())
    return Bar(*columns, console=console)


class LiveProgress(Progress):
    """Show episodes done of all, success so far, steps/s, tokens and time left. A context manager around `run_many`.
    Rates count this call only. Cut and unjudged episodes have their own counts."""

    def __init__(self, label: str) -> None:
        facts = TextColumn("{task.fields[facts]}"), TimeRemainingColumn(compact=True)
        columns = TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), *facts
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal)
        self._row = self._bar.add_task(label, total=None, facts="")
        self._outcomes: Counter[Outcome | None] = Counter()  # of finished and of cut episodes
        self._before = self._total = self._steps = self._tokens = 0
        self._began = self._spoke = monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._bar.disable:
            self._speak()

    def begin(self, done: Sequence[EpisodeSummary], total: int) -> None:
        self._outcomes = Counter(summary.outcome for summary in done)
        self._before, self._total = len(done), total
        self._began = self._spoke = monotonic()
        self._bar.update(self._row, total=total, completed=self._done, facts=self._facts if done else "")

    def step(self, step: Step) -> None:
        self._steps += 1
        self._count(step.decision.usage)

    def episode(self, verdict: Verdict) -> None:
        self._outcomes[verdict.outcome] += 1
        self._count(verdict.unstepped)

    @property
    def _done(self) -> int:
        return self._outcomes.total() - self._outcomes["infra_error"]

    @property
    def _facts(self) -> str:
        """`42.0 % success · 118 steps/s · 1,210,000 tokens`, and what was cut off. No rates where all were stored."""
        seconds = max(monotonic() - self._began, 1e-9)
        decided = sum(self._outcomes[outcome] for outcome in DECIDED)
        parts = [f"{self._outcomes['success'] / decided:.1%} success" if decided else "no episode done yet"]
        if self._total and self._before == self._total:
            parts.append("all were stored already")
        else:
            parts += [f"{self._steps / seconds:.1f} steps/s", f"{self._tokens:,} tokens"]
        apart = {"unjudged": self._done - decided, "cut off": self._outcomes["infra_error"]}
        return " · ".join(parts + [f"{count} {name}" for name, count in apart.items() if count])

    def _count(self, used: Iterable[Usage]) -> None:
        self._tokens += sum(usage.tokens_in + usage.tokens_out for usage in used)
        self._bar.update(self._row, completed=self._done, facts=self._facts)
        if self._bar.disable and monotonic() - self._spoke >= EVERY:
            self._speak()

    def _speak(self) -> None:
        self._spoke = monotonic()
        row = self._bar.tasks[self._row]
        left = row.time_remaining if self._done < self._total else None  # in seconds; None: not known
        time_left = "" if left is None else f" · {left / 60:.0f} min left" if left >= 120 else f" · {left:.0f} s left"
        line = f"{row.description}: {self._done}/{self._total} episodes · {self._facts}{time_left}"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
