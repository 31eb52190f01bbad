"""`bestofq judge`: what a judge makes of stored episodes."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.prompting import SCREENSHOTS
from bestofq.cli.options import console
from bestofq.cli.settings import budget_of, existing
from bestofq.cli.spending import spending
from bestofq.core.decision import Verdict
from bestofq.core.usage import Usage
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.recipes.judging import Which, episodes_to_judge, judge_run
from bestofq.reports.agreement import Agreement, agreement, agreement_tables
from bestofq.reports.domains import domain_grid, domain_results
from bestofq.reports.rows import Selection
from bestofq.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Which episodes are judged, and where the result is written."""

    store: Path
    run: str
    agent: str | None  # None: of any
    limit: int | None  # episodes at most
    out: Path | None  # JSON file
    budget: float | None  # USD at most


def judge_episodes(
    options: Judging, config: ChatConfig, *, screenshots: int | None, which: Which, at_once: int, dry_run: bool
) -> None:
    """Judge them, and print how often they succeeded, or how well the judge agrees with the environment."""
    usage: list[Usage] = []
    run, agent = options.run, options.agent

    async def work(opened: Store) -> str:
        async with ChatModel(config, budget_of(options.budget)) as chat:
            judge = ChatJudge(model=chat, screenshots=SCREENSHOTS if screenshots is None else screenshots)
            columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console) as progress:
                todo = episodes_to_judge(opened, run, judge, agent=agent, which=which)[: options.limit]
                bar = progress.add_task(f"judging {run}", total=len(todo))

                def on_verdict(verdict: Verdict) -> None:
                    usage.extend(verdict.usage)
                    progress.advance(bar)

                counts = await judge_run(
                    opened, todo, judge, adopt=which != "beside", concurrency=at_once, on_verdict=on_verdict
                )
        console.print(f"judged now: {', '.join(f'{n} {outcome}' for outcome, n in counts.items()) or 'nothing new'}")
        for line in spending("the judge", usage):
            console.print(line)
        return judge.name

    if dry_run:
        with Store.open(options.store, read_only=True) as opened:
            judge = ChatJudge(model=ChatModel(config), screenshots=SCREENSHOTS if screenshots is None else screenshots)
            todo = episodes_to_judge(opened, run, judge, agent=agent, which=which)[: options.limit]
        console.print(f"{config.model} would judge {len(todo):,} episodes of {run} in {options.store}")
        return
    with existing(options.store) as opened:
        name = asyncio.run(work(opened))
        found = (
            agreement(opened, run, judge=name, agent=agent)
            if which == "beside"
            else domain_results(opened, Selection(runs=[run], agents=[agent] if agent else None))
        )
    for table in agreement_tables(found) if isinstance(found, Agreement) else [domain_grid(found)]:
        console.print(table)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(found.model_dump_json(indent=2) + "\n", "utf-8")
        console.print(f"written: {options.out}")
