"""`python -m experiments new-tasks`: a chat model writes tasks for new sites from the tasks of another (E.1)."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import get_args

import typer
from pydantic import ValidationError
from rich.markup import escape

from bestofq.cli.options import console
from bestofq.cli.shared import budget_of
from bestofq.cli.writing import print_spending
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError, InputError
from bestofq.envs.webvoyager.source import load_entries
from bestofq.models.chat import ChatModel
from bestofq.rollouts.progress import bar
from experiments.new_tasks.files import TaskFile
from experiments.new_tasks.generation import GenerationSettings, Tally, generate_tasks
from experiments.new_tasks.screening import ScreenedSite, Why

REFUSED: tuple[Why, ...] = get_args(Why)


def write_tasks(
    out: Path,
    *,
    data: Path,
    seed_domain: str,
    domains: Sequence[str],
    held_out: Sequence[Path],
    settings: GenerationSettings,
    today: date,
    budget: float | None,
    dry_run: bool,
) -> None:
    """Write tasks on new sites from the tasks of another, and print what became of those that were asked for."""
    sites = [_site(text) for text in domains]
    files = [data, *held_out]  # the seeds are held out too
    if out.exists() and any(out.samefile(file) for file in files if file.exists()):
        raise ConfigError(f"{out} holds the seeds or held-out tasks: name another file with --out")
    held = [load_entries(file) for file in files]
    shown = [entry for entry in held[0] if entry.web_name == seed_domain]
    if not shown:
        names = ", ".join(dict.fromkeys(entry.web_name for entry in held[0]))
        raise InputError(f"{data} has no task of {seed_domain!r}: its domains are {names}")
    tallies: dict[str, Tally] = {}
    if dry_run:
        console.print(
            f"{settings.chat.model} would write {settings.count} tasks for each of {len(sites)} sites into {out}, "
            f"{settings.per_request} a request, from {len(shown)} seeds"
        )
        return

    async def work(file: TaskFile) -> None:
        async with ChatModel(settings.chat, budget_of(budget)) as chat:
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


def _site(text: str) -> ScreenedSite:
    name, _, url = text.partition("=")
    try:
        return ScreenedSite(name=name.strip(), url=url.strip())
    except ValidationError as error:
        raise ConfigError(
            f"--domain takes NAME=URL, such as Skyscanner=https://skyscanner.net, not {text!r}"
        ) from error
