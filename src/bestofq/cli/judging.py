"""`bestofq judge`: what a judge makes of stored episodes; with `--golden` where steps go wrong (Fig. 3 and 10)."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.judges.golden import GoldenMatcher
from bestofq.agents.prompting import GOLDEN, SCREENSHOTS, prompt_hash
from bestofq.cli.options import console
from bestofq.cli.settings import budget_of, existing
from bestofq.cli.writing import spending, write_out
from bestofq.core.decision import Verdict
from bestofq.core.usage import Usage
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.recipes.golden import Golden, GoldenFindings, golden_findings
from bestofq.recipes.judging import Which, episodes_to_judge, judge_run
from bestofq.recipes.provenance import current_provenance
from bestofq.reports.agreement import Agreement, agreement, agreement_tables
from bestofq.reports.domains import domain_grid, domain_results
from bestofq.reports.figures import failure_split_svg
from bestofq.reports.origin import origins
from bestofq.reports.recall import recall, recall_table
from bestofq.reports.rows import Selection
from bestofq.rollouts.progress import bar
from bestofq.store.records import EpisodeSummary
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
    run, agent = options.run, options.agent

    async def work(opened: Store, judge: ChatJudge, todo: Sequence[EpisodeSummary]) -> None:
        usage: list[Usage] = []
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
        async with chat:
            with Progress(*columns, console=console) as progress:
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

    with Store.open(options.store, read_only=True) if dry_run else existing(options.store) as opened:
        chat = ChatModel(config, budget_of(options.budget))
        judge = ChatJudge(model=chat, screenshots=SCREENSHOTS if screenshots is None else screenshots)
        todo = episodes_to_judge(opened, run, judge, agent=agent, which=which)[: options.limit]
        if dry_run:
            console.print(f"{config.model} would judge {len(todo):,} episodes of {run} in {options.store}")
            return
        asyncio.run(work(opened, judge, todo))
        found = (
            agreement(opened, run, judge=judge.name, agent=agent)
            if which == "beside"
            else domain_results(opened, Selection(runs=[run], agents=[agent] if agent else None))
        )
    for table in agreement_tables(found) if isinstance(found, Agreement) else [domain_grid(found)]:
        console.print(table)
    if options.out is not None:
        write_out(options.out, found.model_dump_json(indent=2) + "\n")


def judge_steps(
    options: Judging, config: ChatConfig, golden: Golden, golden_store: Path | None, *, failures: bool, svg: Path | None
) -> None:
    """Ask a model whether the golden step was among the candidates: was it not proposed, or not chosen?"""
    run, agent, store, out = options.run, options.agent or "best-of-q", options.store, options.out

    async def work(opened: Store, others: Store | None) -> tuple[GoldenFindings, str]:
        async with ChatModel(config, budget_of(options.budget)) as chat:
            matcher = GoldenMatcher(model=chat)
            with bar(console) as progress:
                line = progress.add_task("episodes", total=options.limit)
                found = await golden_findings(
                    opened,
                    matcher,
                    run=run,
                    agent=agent,
                    golden=replace(golden, store=others),
                    failures=failures,
                    limit=options.limit,
                    on_episode=lambda: progress.advance(line),
                )
            return found, matcher.name

    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(store, read_only=True))
        others = stack.enter_context(Store.open(golden_store, read_only=True)) if golden_store else None
        found, name = asyncio.run(work(opened, others))
        made = origins(opened, opened.summaries(run=run, agent=agent))
    rows = [recall(agent, found.steps)]
    console.print(recall_table(rows, made, rater=f"{name}, against one golden episode a task"))
    console.print(
        f"{found.episodes} episodes; {found.without_golden} more have no golden episode; "
        f"{found.own_golden} are their own golden one; {found.unread} steps left out, no reply about them could be read"
    )
    for said in spending("the model", found.usage):
        console.print(said)
    if out is not None:
        here = current_provenance(prompts=prompt_hash(GOLDEN), seed=0)
        result = {
            "run": run,
            "agent": agent,
            "store": str(store),
            "golden_store": str(golden_store or store),
            "golden": [{"id": e.id, "run": e.run, "agent": e.agent, "task": e.key.task} for e in found.golden],
            "commit": here.commit,
            "command": here.command,
            "matcher": name,
            "episodes": found.episodes,
            "own_golden": found.own_golden,
            "recall": rows[0].model_dump(mode="json"),
            "without_golden": found.without_golden,
            "unread": found.unread,
            "steps": [step.model_dump(mode="json") for step in found.steps],
        }
        write_out(out, result)
    if svg is not None and found.steps:
        write_out(svg, failure_split_svg(rows[0].split))
