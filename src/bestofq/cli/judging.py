"""`bestofq judge` and `bestofq webvoyager`: what a judge makes of stored episodes, and what is in a file of tasks."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.prompting import SCREENSHOTS
from bestofq.cli.choices import day_of
from bestofq.cli.config import load_config
from bestofq.cli.spending import spending
from bestofq.core.decision import Verdict
from bestofq.core.protocols import Suite, Warns
from bestofq.core.usage import Usage
from bestofq.envs.webvoyager.dates import stale
from bestofq.envs.webvoyager.suite import WebVoyager
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.recipes.judging import judge_run
from bestofq.reports.agreement import Agreement, agreement, agreement_tables
from bestofq.reports.domains import domain_grid, domain_of, domain_results
from bestofq.reports.rows import Selection
from bestofq.store.store import Store

console = Console()


def judge(
    store: Annotated[Path, typer.Option(help="Folder of the episodes.")],
    run: Annotated[str, typer.Option(help="The run to judge.")],
    model: Annotated[str, typer.Option(help="The judge: the endpoint's name for it.")],
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible endpoint, with its /v1.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's episodes.")] = None,
    screenshots: Annotated[int, typer.Option(min=0, help="Shown, the last ones; 0: text only.")] = SCREENSHOTS,
    against_env: Annotated[
        bool, typer.Option("--against-env", help="Beside the environment's verdicts, and how well they agree.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Also what a judge has judged already.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge so many episodes at most.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes judged at once.")] = 16,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting of the endpoint, a=b.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file for the result.")] = None,
) -> None:
    """Let a model say how stored episodes ended. The same command again goes on where it stopped."""
    given = [f"model={model}", *([f"base_url={base_url}"] if base_url else []), *(set_ or ())]
    config = load_config(ChatConfig, None, given)
    usage: list[Usage] = []

    async def work(opened: Store) -> str:
        async with ChatModel(config) as chat:
            asked = ChatJudge(model=chat, screenshots=screenshots)
            columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console) as progress:
                bar = progress.add_task(f"judging {run}", total=None)

                def on_verdict(verdict: Verdict) -> None:
                    usage.extend(verdict.usage)
                    progress.advance(bar)

                counts = await judge_run(
                    opened,
                    run,
                    asked,
                    agent=agent,
                    which="beside" if against_env else "all" if again else "open",
                    limit=limit,
                    concurrency=concurrency,
                    on_verdict=on_verdict,
                )
        console.print(f"judged now: {', '.join(f'{n} {outcome}' for outcome, n in counts.items()) or 'nothing new'}")
        for line in spending("the judge", usage):
            console.print(line)
        return asked.name

    Store.open(store, read_only=True).close()  # a mistyped folder is refused, not made
    with Store.open(store) as opened:
        name = asyncio.run(work(opened))
        found = (
            agreement(opened, run, judge=name, agent=agent)
            if against_env
            else domain_results(opened, Selection(runs=[run], agents=[agent] if agent else None))
        )
    for table in agreement_tables(found) if isinstance(found, Agreement) else [domain_grid(found)]:
        console.print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(found.model_dump_json(indent=2) + "\n", "utf-8")
        console.print(f"written: {out}")


def tasks_of(
    file: Annotated[Path, typer.Argument(help="WebVoyager's jsonl file.")],
    today: Annotated[str | None, typer.Option(help="YYYY-MM-DD; none: today.")] = None,
) -> None:
    """Before a run: how many tasks each domain has, and which name a date that is past."""
    suite = WebVoyager.load(file)
    past = stale(suite.tasks(), day_of(today))
    for domain, count in suite.domains().items():
        named = sum(domain_of(entry.task.id) == domain for entry in past)
        console.print(f"{domain}: {count} tasks" + (f", {named} name a date that is past" if named else ""))
    for entry in sorted(past, key=lambda entry: (domain_of(entry.task.id), entry.last)):
        console.print(escape(f"{entry.task.id}: {entry.words}"), highlight=False)
    console.print(
        f"{len(past)} of {sum(suite.domains().values())} tasks name a date that is past: a booking cannot be made any "
        "more, a search for what was published then can. Patch or leave out the former before a run."
    )


def say_warnings(suite: Suite) -> None:
    """Before a run: what the suite has to say, such as tasks that cannot be done any more."""
    for line in suite.warnings() if isinstance(suite, Warns) else ():
        console.print(escape(line), style="yellow")
