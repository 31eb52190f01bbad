"""Methods side by side, each of several trained models (Agent Q, Figs. 3 and 6): success, steps, model calls, time."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import get_args

from markupsafe import Markup

from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Role, merge_usage
from bestofq.reports import stats
from bestofq.reports.costs import Label, spread_labels
from bestofq.reports.naming import tones
from bestofq.reports.stats import Estimate, Interval, Measure, PairedDifference
from bestofq.reports.svg import TEMPLATES, Plot, figure, rate_ticks
from bestofq.reports.table import Table, columns
from bestofq.store.store import Store
from experiments.agent_q import over_models

Passes = Sequence[tuple[int, str, str]]
"""(trained model, run, agent) of each pass over the tasks."""
OVER = "tasks, and over trainings where there are several"
"""What the intervals are over."""


class MethodEpisode(FrozenModel):
    """One finished episode of a method, as its row needs it and as a file keeps it."""

    method: str
    model: int  # the seed of the training that made it
    run: str
    agent: str
    task: str  # with its suite
    success: bool
    steps: int
    seconds: float  # from its first look to its end, among others at once
    tokens_out: int
    calls: dict[Role, int]


class MethodRow(FrozenModel):
    """One method. Rates lie in [0, 1]; steps, calls, tokens and seconds are means over its finished episodes, their
    errors over its models, their intervals as that of success."""

    agent: str  # the method's name
    success: Estimate  # over its models
    interval: Interval  # over other tasks, and other trainings where there are several
    difference: PairedDifference | None  # to the baseline, over the same; None for itself
    tasks: int
    steps: Measure
    all_calls: Measure
    calls: dict[Role, float]
    tokens_out: Measure
    seconds: Measure  # from an episode's first look to its end, among others at once
    passes: tuple[tuple[int, str, str], ...]


class Methods(FrozenModel):
    """All methods, in the order asked for."""

    rows: tuple[MethodRow, ...]
    baseline: str
    at_once: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        searching = [row.agent for row in self.rows if any(agent == "mcts" for _, _, agent in row.passes)]
        embedding = [
            f"; {row.agent}: {' + '.join(f'{calls:.1f} {role}' for role, calls in row.calls.items())}"
            for row in self.rows
            if "embedder" in row.calls
        ]
        searches = (
            f"Searches of {'; '.join(searching)} see the environment's reward at the end of their own rollouts of the "
            "held-out tasks, as in the paper (5.1, 6.2); nothing else does."
        )
        return (
            "±: standard error over trained models. In brackets: 95 % over other tasks and, with two models or more, "
            "other trainings: a bootstrap over tasks (differences paired by task) plus Student's t times that error. "
            "A bootstrap over so few models would be too narrow. One model: over tasks alone.",
            *([searches] if searching else []),
            "Steps, calls, tokens and seconds are means an episode, what a search did included.",
            "A model call is one request of any role, the embedder's too, however many answers or texts it brings"
            f"{''.join(embedding)}.",
            f"Seconds are those an episode took among up to {self.at_once} at once: compare, do not quote.",
        )


def method_episodes(store: Store, methods: Mapping[str, Passes]) -> list[MethodEpisode]:
    """Those of each method's passes whose outcome tells how it did, in the order asked for. DataError where a method
    has none."""
    found: list[MethodEpisode] = []
    for name, passes in methods.items():
        of_method = [one for each in passes for one in _pass_episodes(store, name, *each)]
        if not of_method:
            raise DataError(f"no episode of {name!r} is finished ({', '.join(run for _, run, _ in passes)})")
        found += of_method
    return found


def _pass_episodes(store: Store, method: str, model: int, run: str, agent: str) -> Iterator[MethodEpisode]:
    decided = {e.id: e for e in store.summaries(run=run, agent=agent, status="finished") if e.decided}
    for episode in store.episodes(run=run, agent=agent, status="finished"):
        if summary := decided.get(episode.id):
            yield MethodEpisode(
                method=method,
                model=model,
                run=run,
                agent=agent,
                task=f"{episode.task.suite}/{episode.task.id}",
                success=summary.success,
                steps=summary.steps,
                seconds=round(summary.seconds or 0.0, 2),
                tokens_out=sum(used.tokens_out for used in episode.usage),
                calls={used.role: used.calls for used in merge_usage(episode.usage)},
            )


def method_results(episodes: Sequence[MethodEpisode], *, baseline: str, at_once: int) -> Methods:
    """A row for each method, the episodes of all its models taken together. DataError where the baseline has none."""
    found = stats.group_by(episodes, lambda episode: episode.method)
    if baseline not in found:
        raise DataError(f"no episode of {baseline!r}, to which the others are compared")
    against = _attempts(found[baseline])
    return Methods(
        rows=tuple(_row(name, rows, None if name == baseline else against) for name, rows in found.items()),
        baseline=baseline,
        at_once=at_once,
    )


def method_table(found: Methods) -> Table:
    """A row a method."""
    against = f"against {found.baseline}"
    heads = (
        *columns("method", "success %", f"{against} %", "models", "tasks", signed=[against]),
        *columns("steps", "model calls", "of these to rank"),
        *columns("tokens written", "seconds", digits=0),
    )
    cells = [
        (
            row.agent,
            Measure(value=row.success.mean, interval=row.interval, error=row.success.error),
            *(row.difference, row.success.runs, row.tasks),
            *map(_without_error, (row.steps, row.all_calls)),
            row.calls.get("critic", 0.0),
            *map(_without_error, (row.tokens_out, row.seconds)),
        )
        for row in found.rows
    ]
    return Table.of("methods", "Methods (Agent Q, Figs. 3 and 6)", heads, cells, *found.notes)


def _without_error(measure: Measure) -> Measure:
    return measure.model_copy(update={"error": None})


def _attempts(episodes: Sequence[MethodEpisode]) -> list[stats.Attempt]:
    return [stats.Attempt(task=e.task, run=e.model, success=e.success, steps=e.steps) for e in episodes]


def _row(name: str, episodes: Sequence[MethodEpisode], against: Sequence[stats.Attempt] | None) -> MethodRow:
    attempts = _attempts(episodes)
    calls: Counter[Role] = Counter()
    for episode in episodes:
        calls.update(episode.calls)

    def mean(of: Callable[[MethodEpisode], float]) -> Measure:
        return over_models.mean([(episode.task, episode.model, of(episode)) for episode in episodes])

    return MethodRow(
        agent=name,
        success=stats.success_rate(stats.Tries.of(attempts)),
        interval=over_models.success_interval(attempts),
        difference=None if against is None else over_models.paired_difference(attempts, against),
        tasks=len({episode.task for episode in episodes}),
        steps=mean(lambda episode: episode.steps),
        all_calls=mean(lambda episode: sum(episode.calls.values())),
        calls={role: calls[role] / len(episodes) for role in get_args(Role) if calls[role]},
        tokens_out=mean(lambda episode: episode.tokens_out),
        seconds=mean(lambda episode: episode.seconds),
        passes=tuple(sorted({(episode.model, episode.run, episode.agent) for episode in episodes})),
    )


def write_method_episodes(path: Path, episodes: Iterable[MethodEpisode]) -> None:
    """Write a CSV file, one line an episode; `calls_…` are model calls by role."""
    fields = [name for name in MethodEpisode.model_fields if name != "calls"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*fields, *(f"calls_{role}" for role in get_args(Role))], lineterminator="\n")
        writer.writeheader()
        for episode in episodes:
            calls = {f"calls_{role}": episode.calls.get(role, 0) for role in get_args(Role)}
            writer.writerow(episode.model_dump(exclude={"calls"}) | calls)


def calls_svg(table: Methods) -> Markup:
    """Success against model calls an episode, on a logarithmic axis, with whiskers as in brackets in the table."""
    rates = rate_ticks(row.interval.high for row in table.rows)
    calls = [max(row.all_calls.value or 0.0, 1.0) for row in table.rows]
    plot = Plot(x=(log10(min(calls)) - 0.1, log10(max(calls)) + 0.5), y=(0, rates[-1][0]), height=340, top=14)
    counts = [n * 10**power for power in range(4) for n in (1, 2, 5)]
    rows = sorted(zip(table.rows, calls, strict=True), key=lambda pair: -pair[0].success.mean)
    labels = [Label.at(plot.at_x(log10(n)), plot.at_y(row.success.mean), row.agent, 480) for row, n in rows]
    return figure(
        TEMPLATES.from_string(Path(__file__).with_name("calls.jinja").read_text("utf-8")),
        "Success against model calls",
        plot=plot,
        rates=rates,
        ticks=[(log10(n), f"{n:,}") for n in counts if plot.x[0] <= log10(n) <= plot.x[1]],
        rows=[(row, count, log10(count)) for row, count in rows],
        labels=spread_labels(labels),
        tone=tones([row.agent for row in table.rows], table.baseline),
    )
