"""`bestofq tasks`: what a suite's tasks are; and new tasks on new sites, written by a chat model."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

import typer
from pydantic import ValidationError
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.build.context import chosen_tasks
from bestofq.cli.config import load_config
from bestofq.cli.options import Given, console
from bestofq.cli.settings import budget_of, limit_of, models_of, named_only, split_of
from bestofq.cli.writing import spending
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.observation import Split, Task
from bestofq.envs.suites import make_suite
from bestofq.envs.webvoyager.dates import stale
from bestofq.envs.webvoyager.source import Entry, load_entries
from bestofq.models.chat import ChatModel
from bestofq.recipes.tasks.files import TaskFile
from bestofq.recipes.tasks.generation import GenerationSettings, Tally, generate_tasks
from bestofq.recipes.tasks.screening import Site, Why
from bestofq.reports.domains import domain_of

REFUSED: tuple[Why, ...] = get_args(Why)
SHOWN = 5  # tasks of a split, unless --tasks says how many


def list_tasks(given: Given, *, split: str | None, names: str | None, today: date) -> None:
    """How many tasks each split and each domain has, the first of them, and those that name a date that is past."""
    chosen = models_of(given, *named_only(names)).settings.suite
    made = make_suite(chosen)
    splits: Sequence[Split] = [split_of(split)] if split else get_args(Split)
    shown = SHOWN if names is None else limit_of(names, chosen)
    seen: dict[str, Task] = {}
    for one in splits:
        found = asyncio.run(chosen_tasks(made, chosen.only, one, None))
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


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What new tasks are written from, and where they go."""

    seeds: Path  # WebVoyager's jsonl; all of it is held out
    seed_domain: str
    domains: Sequence[str]  # NAME=URL
    held_out: Sequence[Path]
    out: Path
    today: date
    budget: float | None  # USD at most


def write_tasks(options: Writing, config: Path | None, given: Sequence[str], *, dry_run: bool) -> None:
    """Write tasks on new sites from the tasks of another, and print what became of those that were asked for."""
    settings = load_config(GenerationSettings, config, given)
    out, sites = options.out, [_site(text) for text in options.domains]
    files = [options.seeds, *options.held_out]
    if out.exists() and any(out.samefile(file) for file in files if file.exists()):
        raise ConfigError(f"{out} holds the seeds or held-out tasks: name another file with --write")
    held = [load_entries(file) for file in files]
    shown = _of_domain(held[0], options.seed_domain, options.seeds)
    tallies: dict[str, Tally] = {}
    if dry_run:
        console.print(
            f"{settings.chat.model} would write {settings.count} tasks for each of {len(sites)} sites into {out}, "
            f"{settings.per_request} a request, from {len(shown)} seeds"
        )
        return

    async def work(file: TaskFile) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
        async with ChatModel(settings.chat, budget_of(options.budget)) as chat:
            with Progress(*columns, console=console) as progress:
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
                    today=options.today,
                    on_reply=on_reply,
                )

    with TaskFile(out) as file:
        try:
            asyncio.run(work(file))
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
    for line in spending("the writer", [used for tally in tallies for used in tally.usage]):
        console.print(line)
    if any(tally.refused or tally.unusable for tally in tallies):
        console.print(f"refused, each with why: {escape(str(file.log))}")
    console.print(f"written: {escape(str(file.path))}")


def _site(text: str) -> Site:
    name, _, url = text.partition("=")
    try:
        return Site(name=name.strip(), url=url.strip())
    except ValidationError as error:
        raise ConfigError(
            f"--domain takes NAME=URL, such as Skyscanner=https://www.skyscanner.net, not {text!r}"
        ) from error


def _of_domain(entries: list[Entry], name: str, file: Path) -> list[Entry]:
    found = [entry for entry in entries if entry.web_name == name]
    if not found:
        names = ", ".join(dict.fromkeys(entry.web_name for entry in entries))
        raise InputError(f"{file} has no task of {name!r}: its domains are {names}")
    return found
