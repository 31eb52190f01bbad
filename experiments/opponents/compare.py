"""Success against tokens of every ranker of `run.sh`, a run of its own each: a table, a JSON file, one Pareto figure.

compare.py OUT STORE [OUT STORE ...]: each OUT.json and OUT.md of the runs in that store, or in several with commas
between them, and pareto.svg of all.
"""

import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from bestofq.recipes.provenance import commit, this_command
from bestofq.reports.costs import AgentCost, Costs, agent_costs, pareto_svg
from bestofq.reports.rows import Selection
from bestofq.reports.stats import Attempt, Difference, attempts_of, paired_difference
from bestofq.store.store import Store

AGAINST = ("prompting", "verifier", "best-of-q")
HEIGHT, GAP = 300, 30  # of a panel of the figure, and above it


class Ranker(NamedTuple):
    """A run: its name says who ranks."""

    cost: AgentCost
    attempts: list[Attempt]


def rankers(stores: Sequence[str]) -> dict[str, Ranker]:
    """By run, as far as each has played; the cheapest first."""
    found = {}
    for folder in stores:
        with Store.open(folder, read_only=True) as store:
            for run in store.runs():
                (cost,) = agent_costs(store, Selection(runs=[run.name])).rows
                found[run.name] = Ranker(cost, attempts_of(store.summaries(run=run.name)))
    return dict(sorted(found.items(), key=lambda one: one[1].cost.total.tokens / one[1].cost.tasks))


def row(name: str, found: dict[str, Ranker]) -> dict[str, object]:
    cost, attempts = found[name]
    differences: dict[str, Difference | None] = {
        other: paired_difference(attempts, found[other].attempts)
        for other in AGAINST
        if other in found and other != name
    }
    return {
        "ranker": name,
        "tasks": cost.tasks,
        "success": cost.success,
        "interval": cost.interval and cost.interval.model_dump(),
        "tokens": cost.total.tokens / cost.tasks,
        "tokens_by_role": {role: spent.tokens / cost.tasks for role, spent in cost.roles.items()},
        "tokens_per_success": cost.total.tokens / cost.successes if cost.successes else None,
        "steps": sum(attempt.steps for attempt in attempts) / len(attempts),
        "minus": {other: one and one.model_dump() for other, one in differences.items()},
        "lost": cost.lost,
    }


def table(found: dict[str, Ranker]) -> str:
    """Markdown."""
    lines = ["| ranker | success % | tokens an episode | steps | minus prompting | minus verifier | minus best-of-q |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for name, (cost, attempts) in found.items():
        cells = [name, f"{100 * (cost.success or 0):.1f}", f"{cost.total.tokens / cost.tasks:,.0f}"]
        if cost.interval:
            cells[1] += f" [{100 * cost.interval.low:.1f}, {100 * cost.interval.high:.1f}]"
        cells.append(f"{sum(attempt.steps for attempt in attempts) / len(attempts):.1f}")
        for other in AGAINST:
            known = None if other == name or other not in found else paired_difference(attempts, found[other].attempts)
            shown = known and [f"{100 * number:+.1f}" for number in (known.mean, known.low, known.high)]
            cells.append(f"{shown[0]} [{shown[1]}, {shown[2]}]" if shown else "–")
        lines.append(f"| {' | '.join(cells)} |")
    tasks = {cost.tasks for cost, _ in found.values()}
    lines += ["", f"{'–'.join(map(str, sorted(tasks)))} tasks, one pass; in brackets 95 % bootstrap over tasks."]
    return "\n".join(lines) + "\n"


def panels(drawn: dict[str, Costs]) -> str:
    """One figure, an environment above the other."""
    inner, width = [], 560
    for number, (name, costs) in enumerate(drawn.items()):
        top = number * (HEIGHT + GAP)
        svg = pareto_svg(costs).replace("<svg ", f'<svg y="{top + GAP}" height="{HEIGHT}" width="{width}" ', 1)
        inner.append(Markup('<text x="8" y="{}">{}</text>').format(top + 18, name) + Markup(svg))
    height = len(drawn) * (HEIGHT + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="figure" role="img">'
    return f"{head}<title>Success against tokens an episode</title>{''.join(inner)}</svg>\n"


def main() -> None:
    drawn: dict[str, Costs] = {}
    for word, stores in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        out, found = Path(word), rankers(stores.split(","))
        rows = [row(name, found) for name in found]
        machine = {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()}
        made = {"command": this_command(), "seed": 0, "commit": commit(), "machine": machine}
        out.with_suffix(".json").write_text(json.dumps({**made, "rankers": rows}, indent=1) + "\n")
        out.with_suffix(".md").write_text(table(found))
        renamed = (one.cost.model_copy(update={"agent": name, "run": out.name}) for name, one in found.items())
        drawn[out.name] = Costs(rows=tuple(renamed))
        sys.stdout.write(table(found))
    Path(sys.argv[1]).with_name("pareto.svg").write_text(panels(drawn))


if __name__ == "__main__":
    main()
