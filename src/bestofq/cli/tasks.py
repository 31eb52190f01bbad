"""`bestofq tasks`: what a suite's tasks are."""

from collections import Counter
from datetime import date
from typing import get_args

import typer
from rich.markup import escape

from bestofq.cli.options import SuiteTasks, console
from bestofq.cli.settings import limit_of, models_of, named_only, one_of
from bestofq.config.context import chosen_tasks
from bestofq.core.concurrency import run_interruptible
from bestofq.core.observation import Split, Task
from bestofq.envs.suites import make_suite
from bestofq.envs.webvoyager.dates import stale
from bestofq.reports.domains import domain_of

SHOWN = 5  # tasks of a split, unless --tasks says how many


def list_tasks(wanted: SuiteTasks) -> None:
    """How many tasks each split and each domain has, the first of them, and those that name a date that is past."""
    today = _day(wanted)
    chosen = models_of(wanted, *named_only(wanted.tasks)).settings.suite
    made = make_suite(chosen)
    known_splits: tuple[Split, ...] = get_args(Split)
    splits = [one_of("split", wanted.split, known_splits)] if wanted.split else known_splits
    shown = SHOWN if wanted.tasks is None else limit_of(wanted.tasks, chosen)
    seen: dict[str, Task] = {}
    for one in splits:
        found = run_interruptible(chosen_tasks(made, chosen.only, one, None))
        known = [task.id in seen for task in found]
        seen |= {task.id: task for task in found}
        console.print(f"[bold]{one}[/]: {len(found):,} tasks" + (", the same ones" if found and all(known) else ""))
        if all(known):
            continue
        domains = Counter(domain_of(task.id) for task in found)
        if len(domains) > 1:
            console.print("  " + ", ".join(f"{escape(name)} {count}" for name, count in sorted(domains.items())))
        for task in found[:shown]:
            console.print(f"  {escape(task.id)}: {escape(task.goal)}", highlight=False)
        if len(found) > shown:
            console.print(f"  … and {len(found) - shown:,} more: --tasks {len(found)} shows all")
    past = [] if made.sandboxed else stale(seen.values(), today)  # a site of the suite's own has its own clock
    for entry in sorted(past, key=lambda entry: (domain_of(entry.task.id), entry.last)):
        console.print(escape(f"{entry.task.id} names a date that is past: {entry.words}"), style="yellow")
    if past:
        console.print(
            f"{len(past)} of {len(seen)} tasks name a date that is past. A booking cannot be made any more; a search "
            "for what was published then can. Change or leave out the former before a run."
        )


def _day(wanted: SuiteTasks) -> date:
    """The day as given, else today."""
    try:
        return date.today() if wanted.today is None else date.fromisoformat(wanted.today)
    except ValueError as error:
        raise typer.BadParameter(f"{wanted.today!r} is no day YYYY-MM-DD") from error
