"""`bestofq tasks`: what a suite's tasks are; and new tasks on new sites, written by a chat model."""

from collections import Counter
from datetime import date
from pathlib import Path
from typing import get_args

import typer
from pydantic import ValidationError
from rich.markup import escape

from bestofq.cli.config import load_config
from bestofq.cli.options import SuiteTasks, console
from bestofq.cli.settings import budget_of, limit_of, models_of, named_only, one_of, set_by
from bestofq.cli.writing import print_spending
from bestofq.config.context import chosen_tasks
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.observation import Split, Task
from bestofq.envs.suites import make_suite
from bestofq.envs.webvoyager.dates import stale
from bestofq.envs.webvoyager.source import load_entries
from bestofq.models.chat import ChatModel
from bestofq.recipes.tasks.files import TaskFile
from bestofq.recipes.tasks.generation import GenerationSettings, Tally, generate_tasks
from bestofq.recipes.tasks.screening import ScreenedSite, Why
from bestofq.reports.domains import domain_of
from bestofq.rollouts.progress import bar

REFUSED: tuple[Why, ...] = get_args(Why)
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


def write_tasks(wanted: SuiteTasks, out: Path) -> None:
    """Write tasks on new sites from the tasks of another, and print what became of those that were asked for."""
    for option in ("data", "seed_domain", "domain", "model"):
        if not getattr(wanted, option):
            raise ConfigError(f"--write needs --{option.replace('_', '-')}")
    assert wanted.data is not None
    today = _day(wanted)
    named = set_by({"chat.model": wanted.model, "chat.base_url": wanted.base_url, "count": wanted.count})
    settings = load_config(GenerationSettings, wanted.config, [*named, *(wanted.set_ or ())])
    sites = [_site(text) for text in wanted.domain or ()]
    files = [wanted.data, *(wanted.held_out or ())]  # the seeds are held out too
    if out.exists() and any(out.samefile(file) for file in files if file.exists()):
        raise ConfigError(f"{out} holds the seeds or held-out tasks: name another file with --write")
    held = [load_entries(file) for file in files]
    shown = [entry for entry in held[0] if entry.web_name == wanted.seed_domain]
    if not shown:
        names = ", ".join(dict.fromkeys(entry.web_name for entry in held[0]))
        raise InputError(f"{wanted.data} has no task of {wanted.seed_domain!r}: its domains are {names}")
    tallies: dict[str, Tally] = {}
    if wanted.dry_run:
        console.print(
            f"{settings.chat.model} would write {settings.count} tasks for each of {len(sites)} sites into {out}, "
            f"{settings.per_request} a request, from {len(shown)} seeds"
        )
        return

    async def work(file: TaskFile) -> None:
        async with ChatModel(settings.chat, budget_of(wanted.budget)) as chat:
            with bar(console, 20) as progress:
                bars = {site.name: progress.add_task(escape(site.name), total=settings.count) for site in sites}

                def on_reply(tally: Tally) -> None:
                    tallies[tally.site] = tally
                    progress.update(bars[tally.site], completed=tally.has)

                await generate_tasks(
                    chat,
                    file,
                    sites=sites,
                    seeds=shown,
                    held_out=[entry for entries in held for entry in entries],
                    settings=settings,
                    today=today,
                    on_reply=on_reply,
                )

    with TaskFile(out) as file:
        try:
            run_interruptible(work(file))
        finally:
            if tallies:
                _say(list(tallies.values()), file)
    if short := [tally for tally in tallies.values() if tally.lacking]:
        for tally in short:
            last = f"; of the last unusable reply: {escape(tally.problem)}" if tally.problem else ""
            console.print(
                f"[yellow]{escape(tally.site)} lacks {tally.lacking} of its {tally.wanted} tasks: {settings.fruitless} "
                f"requests in a row brought no new one{last}.[/]"
            )
        console.print(
            "The same command with --set seed=1, a higher temperature or another --model continues from here.",
            highlight=False,
        )
        raise typer.Exit(1)


def _say(tallies: list[Tally], file: TaskFile) -> None:
    """What became of what was asked for, the held-out tasks that came too near, and the cost."""
    for tally in tallies:
        became = [
            ("requests", tally.requests),
            ("unusable replies", tally.unusable),
            ("tasks asked for", tally.requested),
            ("accepted", tally.accepted),
            *((why, tally.refused[why]) for why in REFUSED),
            ("not needed", tally.surplus),
        ]
        console.print(
            f"{escape(tally.site)}: {tally.has} of {tally.wanted} tasks, {tally.before} of them before"
            + "".join(f", {what}: {count}" for what, count in became if count),
            highlight=False,
        )
        if tally.overlaps:
            near = ", ".join(f"{key} ({count})" for key, count in tally.overlaps.most_common(5))
            console.print(f"  too near to held-out tasks, the most often: {escape(near)}")
    print_spending([used for tally in tallies for used in tally.usage], "the writer")
    if any(tally.refused or tally.unusable for tally in tallies):
        console.print(f"refused, each with why: {escape(str(file.log))}")
    console.print(f"written: {escape(str(file.path))}")


def _day(wanted: SuiteTasks) -> date:
    """The day as given, else today."""
    try:
        return date.today() if wanted.today is None else date.fromisoformat(wanted.today)
    except ValueError as error:
        raise typer.BadParameter(f"{wanted.today!r} is no day YYYY-MM-DD") from error


def _site(text: str) -> ScreenedSite:
    name, _, url = text.partition("=")
    try:
        return ScreenedSite(name=name.strip(), url=url.strip())
    except ValidationError as error:
        raise ConfigError(
            f"--domain takes NAME=URL, such as Skyscanner=https://skyscanner.net, not {text!r}"
        ) from error
