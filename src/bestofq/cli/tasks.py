"""List a suite's tasks."""

from collections import Counter
from typing import Annotated, get_args

from rich.markup import escape
from typer import Option

from bestofq.cli.options import CommonOptions, Tasks, Text, takes
from bestofq.cli.shared import limit_of, models_of, named_only, one_of
from bestofq.config.context import chosen_tasks
from bestofq.core.concurrency import run_interruptible
from bestofq.core.observation import Split, Task
from bestofq.core.words import count_of
from bestofq.envs.suites import make_suite
from bestofq.reports.success import domain_of
from bestofq.rollouts.console import console

SHOWN = 5  # tasks of a split, unless --tasks says how many


@takes("suite", "data", "config", "set_")
def tasks(
    options: CommonOptions,
    split: Annotated[Text, Option(help="train, dev or test. Default: each.")] = None,
    tasks: Tasks = None,
) -> None:
    chosen = models_of(options, *named_only(tasks)).settings.suite
    made = make_suite(chosen)
    known_splits: tuple[Split, ...] = get_args(Split)
    splits = [one_of("split", split, known_splits)] if split else known_splits
    shown = SHOWN if tasks is None else limit_of(tasks, chosen)
    seen: dict[str, Task] = {}
    for name in splits:
        listed = run_interruptible(chosen_tasks(made, chosen.only, name, None))
        known = [task.id in seen for task in listed]
        seen |= {task.id: task for task in listed}
        console.print(
            f"[bold]{name}[/]: {count_of(len(listed), 'task')}" + (", the same ones" if listed and all(known) else "")
        )
        if all(known):
            continue
        domains = Counter(domain_of(task.id) for task in listed)
        if len(domains) > 1:
            console.print("  " + ", ".join(f"{escape(domain)} {count}" for domain, count in sorted(domains.items())))
        for task in listed[:shown]:
            console.print(f"  {escape(task.id)}: {escape(task.goal)}", highlight=False)
        if len(listed) > shown:
            console.print(f"  … and {len(listed) - shown:,} more: --tasks {len(listed)} shows all")
