"""`bestofq tasks`: new tasks on new sites, written by a chat model."""

import asyncio
from pathlib import Path
from typing import Annotated, get_args

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.cli.choices import day_of
from bestofq.cli.config import load_config
from bestofq.cli.spending import spending
from bestofq.core.errors import ConfigError, InputError
from bestofq.envs.webvoyager.source import Entry, load_entries
from bestofq.models.chat import ChatModel
from bestofq.recipes.tasks.files import TaskFile
from bestofq.recipes.tasks.generation import GenerationSettings, Tally, generate_tasks
from bestofq.recipes.tasks.screening import Site, Why

console = Console()
REFUSED: tuple[Why, ...] = get_args(Why)


def write_tasks(
    seeds: Annotated[Path, typer.Option(help="WebVoyager's jsonl file that the seeds are in; all of it is held out.")],
    seed_domain: Annotated[str, typer.Option(help="Whose tasks are the seeds, such as 'Google Flights'.")],
    domain: Annotated[list[str], typer.Option(help="Where the new tasks are done: NAME=URL; may be given again.")],
    model: Annotated[str, typer.Option(help="Who writes: the endpoint's name for it.")],
    out: Annotated[Path, typer.Option(help="jsonl file that the tasks are appended to.")],
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible endpoint, with its /v1.")] = None,
    held_out: Annotated[
        list[Path] | None, typer.Option(help="Another file whose tasks none may be like; may be given again.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Tasks a domain; none: 40, as in Table 9.")] = None,
    today: Annotated[str | None, typer.Option(help="YYYY-MM-DD, that dates lie ahead of; none: today.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, a=b, such as near=0.5 or chat.max_tokens=3000.")
    ] = None,
) -> None:
    """Write tasks on new sites from the tasks of another. The same command again goes on where it stopped."""
    given = [f"chat.model={model}", *([f"chat.base_url={base_url}"] if base_url else [])]
    given += [f"count={count}"] if count else []
    settings = load_config(GenerationSettings, config, [*given, *(set_ or ())])
    sites = [_site(text) for text in domain]
    files = [seeds, *(held_out or ())]
    if out.exists() and any(out.samefile(file) for file in files if file.exists()):
        raise ConfigError(f"{out} holds the seeds or held-out tasks: name another file with --out")
    held = [load_entries(file) for file in files]
    shown = _of_domain(held[0], seed_domain, seeds)
    day = day_of(today)
    tallies: dict[str, Tally] = {}

    async def work(file: TaskFile) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
        async with ChatModel(settings.chat) as chat:
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
                    today=day,
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
            "The same command with --set seed=1, a higher temperature or another --model goes on from here.",
            highlight=False,
        )
        raise typer.Exit(1)


def _say(tallies: list[Tally], file: TaskFile) -> None:
    """What became of what was asked for, the held-out tasks that came too near, and the cost."""
    for tally in tallies:
        became = [
            ("requests", tally.requests),
            ("unusable replies", tally.unusable),
            ("tasks asked for", tally.asked),
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
