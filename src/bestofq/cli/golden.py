"""`bestofq judge --golden`: where steps go wrong, by a model and one golden episode a task (Fig. 3 and 10)."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bestofq.agents.judges.golden import GoldenMatcher
from bestofq.agents.prompting import GOLDEN, prompt_hash
from bestofq.cli.judging import Judging
from bestofq.cli.options import console
from bestofq.cli.settings import budget_of
from bestofq.cli.spending import spending
from bestofq.cli.writing import write_json
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.recipes.golden import Golden, GoldenFindings, golden_findings
from bestofq.recipes.progress import bar
from bestofq.recipes.provenance import current_provenance
from bestofq.reports.figures import failure_split_svg
from bestofq.reports.origin import origins
from bestofq.reports.recall import recall, recall_table
from bestofq.store.store import Store


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
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, result)
        console.print(f"written: {out}")
    if svg is not None and found.steps:
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(failure_split_svg(rows[0].split), "utf-8")
        console.print(f"written: {svg}")
