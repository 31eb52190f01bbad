"""Success against tokens of every ranker, a run of its own each: tables, JSON files, one Pareto figure.

compare.py OUT TASKS STORE [...]: OUT.json and OUT.md of the runs in that store, or in several with commas between them,
and pareto.svg of all. Runs and tasks count if so many tasks are finished by all. Intervals resample MiniWoB++'s kinds.
"""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from bestofq.core.decision import Episode
from bestofq.core.errors import DataError
from bestofq.core.usage import Role
from bestofq.recipes.identity import commit, this_command
from bestofq.reports.costs import CostPoint, Spent, points_svg
from bestofq.reports.stats import Attempt, Interval, PairedDifference, paired_difference, success_interval, success_rate
from bestofq.store.store import Store

AGAINST = ("prompting", "verifier", "best-of-q")
HEIGHT, GAP = 300, 30  # of a panel of the figure, and above it


class Ranker(NamedTuple):
    """What a run did on the tasks that count."""

    attempts: Sequence[Attempt]
    roles: Mapping[Role, Spent]

    @property
    def tokens(self) -> float:
        """An episode."""
        return sum(spent.tokens for spent in self.roles.values()) / len(self.attempts)

    @property
    def steps(self) -> float:
        return sum(attempt.steps for attempt in self.attempts) / len(self.attempts)

    @property
    def rate(self) -> float:
        return success_rate(self.attempts).mean

    @property
    def interval(self) -> Interval:
        return success_interval(self.attempts)

    def minus(self, other: "Ranker") -> PairedDifference | None:
        return paired_difference(self.attempts, other.attempts)


def rankers(stores: Sequence[str], tasks: int) -> dict[str, Ranker]:
    """By run, the cheapest first. DataError where none has finished so many tasks."""
    played: dict[str, dict[str, Episode]] = {}
    for folder in stores:
        with Store.open(folder, read_only=True) as store:
            for run in store.runs():
                done = {episode.task.id: episode for episode in store.episodes(run=run.name)}
                if len(done) >= tasks:
                    played[run.name] = done
    if not played:
        raise DataError(f"no run in {', '.join(stores)} has finished {tasks} tasks: give fewer, or play on by run.sh")
    common = set.intersection(*(set(episodes) for episodes in played.values()))
    found = {name: _ranker([episodes[task] for task in sorted(common)]) for name, episodes in played.items()}
    return dict(sorted(found.items(), key=lambda one: one[1].tokens))


def _ranker(episodes: Sequence[Episode]) -> Ranker:
    roles: dict[Role, Spent] = {}
    for used in (used for episode in episodes for used in episode.usage):
        roles[used.role] = roles.get(used.role, Spent()) + Spent.of(used)
    units = [((*e.task.id.split("/"), e.run), e.verdict.outcome == "success", len(e.steps)) for e in episodes]
    return Ranker([Attempt(unit[0], unit[1], won, steps) for unit, won, steps in units], roles)


def as_json(name: str, found: Mapping[str, Ranker]) -> dict[str, object]:
    one = found[name]
    minus = {other: one.minus(found[other]) for other in AGAINST if other in found and other != name}
    wins = sum(attempt.success for attempt in one.attempts)
    return {
        "ranker": name,
        "tasks": len(one.attempts),
        "success": one.rate,
        "interval": one.interval.model_dump(),
        "steps": one.steps,
        "tokens": one.tokens,
        "tokens_by_role": {role: spent.tokens / len(one.attempts) for role, spent in one.roles.items()},
        "tokens_a_success": one.tokens * len(one.attempts) / wins if wins else None,
        "outcomes": [f"{a.task}/{a.run} {a.success:d}" for a in one.attempts],
        "minus": {other: difference and difference.model_dump() for other, difference in minus.items()},
    }


def table(found: Mapping[str, Ranker]) -> str:
    """Markdown."""
    heads = ["ranker", "success %", "tokens an episode", "steps", *(f"minus {other}" for other in AGAINST)]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --: |" * (len(heads) - 1)]
    for name, one in found.items():
        low, high = (f"{100 * end:.1f}" for end in (one.interval.low, one.interval.high))
        cells = [name, f"{100 * one.rate:.1f} [{low}, {high}]", f"{one.tokens:,.0f}", f"{one.steps:.1f}"]
        cells += [_signed(one.minus(found[other])) if other in found and other != name else "–" for other in AGAINST]
        lines.append(f"| {' | '.join(cells)} |")
    tasks = max(len(one.attempts) for one in found.values())
    return "\n".join([*lines, "", f"The same {tasks} tasks, one pass; in brackets 95 % bootstrap."]) + "\n"


def _signed(found: PairedDifference | None) -> str:
    if found is None:
        return "–"
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def panel(found: Sequence[Mapping[str, Any]]) -> Markup:
    """Success against tokens an episode, of rankers `as_json`."""
    return points_svg(
        [CostPoint(one["ranker"], round(one["tokens"]), one["success"], Interval(**one["interval"])) for one in found]
    )


def one_figure(panels: Mapping[str, Markup]) -> str:
    """An environment above the other."""
    width, inner = 560, []
    for number, (name, svg) in enumerate(panels.items()):
        top = number * (HEIGHT + GAP)
        placed = str(svg).replace("<svg ", f'<svg y="{top + GAP}" width="{width}" height="{HEIGHT}" ', 1)
        inner.append(Markup('<text class="name" x="8" y="{}">{}</text>').format(top + 18, name) + Markup(placed))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(panels) * (HEIGHT + GAP)}" class="figure">'
    )
    return f"{head}<title>Success against tokens an episode</title>{''.join(inner)}</svg>\n"


def main() -> None:
    panels: dict[str, Markup] = {}
    machine = {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()}
    made = {"command": this_command(), "seed": 0, "commit": commit(), "machine": machine}
    for word, tasks, stores in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
        out, found = Path(word), rankers(stores.split(","), int(tasks))
        rows = [as_json(name, found) for name in found]
        out.with_suffix(".json").write_text(json.dumps({**made, "rankers": rows}, indent=1) + "\n")
        out.with_suffix(".md").write_text(table(found))
        panels["shop" if out.name == "result" else out.name] = panel(rows)
        sys.stdout.write(table(found))
    Path(sys.argv[1]).with_name("pareto.svg").write_text(one_figure(panels))


if __name__ == "__main__":
    main()
