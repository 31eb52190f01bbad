"""Let a model say how stored episodes ended. Resumable."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Literal

from typer import Option

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.prompting import SCREENSHOTS
from bestofq.cli.config import load_config
from bestofq.cli.options import RUNS, Budget, DryRun, Files, Place, Set, Stored, Text
from bestofq.cli.shared import budget_of, open_existing_store, set_by
from bestofq.cli.writing import check_out, print_usage, write_out
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import Verdict
from bestofq.core.usage import Usage
from bestofq.core.words import count_of
from bestofq.models.chat import HERE, ChatConfig
from bestofq.recipes.judging import Which, episodes_to_judge, judge_run
from bestofq.reports.agreement import Agreement, agreement, agreement_tables
from bestofq.reports.rows import Selection
from bestofq.reports.success import domain_grid, domain_results
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


def judge(
    run: Annotated[str, Option(help="The run to judge.")],
    model: Annotated[
        str,
        Option("--model", help="The judge: the endpoint's name for it; with --base-url local directory or hub name."),
    ],
    base_url: Annotated[
        Text, Option("--base-url", help="An OpenAI-compatible endpoint, with its /v1; local: the model is loaded here.")
    ] = None,
    store: Stored = RUNS,
    files: Files = None,
    agent: Annotated[Text, Option(help="Only this agent's episodes.")] = None,
    screenshots: Annotated[int | None, Option(min=0, help="Shown, the last ones; 0: text only.")] = None,
    criteria: Annotated[Literal["opentable"] | None, Option(help="opentable: the four criteria of Agent Q, 6.1.")] = (
        None
    ),
    against_env: Annotated[bool, Option("--against-env", help="How well it agrees with the environment.")] = False,
    again: Annotated[bool, Option("--again", help="Also what a judge has judged already.")] = False,
    concurrency: Annotated[int, Option(min=1, help="Episodes judged at once.")] = 16,
    set_: Set = None,
    out: Annotated[Place, Option(help="JSON file for the result.")] = None,
    budget: Budget = None,
    dry_run: DryRun = False,
) -> None:
    check_out(out)
    place = Location.of(store, files)
    which: Which = "extra" if against_env else "all" if again else "open"
    # --set changes the judge's own settings
    config = load_config(ChatConfig, None, [*set_by({"model": model, "base_url": base_url}), *(set_ or ())])
    models = Models(BestOfQSettings(endpoints={"judge": config}), budget_of(budget))
    if screenshots is None:
        screenshots = 0 if base_url == HERE else SCREENSHOTS

    async def work(store: Store, todo: Sequence[EpisodeSummary]) -> None:
        usage: list[Usage] = []
        with bar(20) as progress:
            line = progress.add_task(f"judging {run}", total=len(todo))

            def on_verdict(verdict: Verdict) -> None:
                usage.extend(verdict.usage)
                progress.advance(line)

            async with aclosing(models):
                counts = await judge_run(
                    store, todo, asked, adopt=which != "extra", concurrency=concurrency, on_verdict=on_verdict
                )
        console.print(f"judged now: {', '.join(f'{n} {outcome}' for outcome, n in counts.items()) or 'nothing new'}")
        print_usage(usage, "the judge")

    with Store.open(place, read_only=True) if dry_run else open_existing_store(place) as opened:
        asked = ChatJudge(model=models.in_role(config), screenshots=screenshots, criteria=criteria)
        todo = episodes_to_judge(opened, run, asked, agent=agent, which=which)
        if dry_run:
            console.print(f"{asked.model.name} would judge {count_of(len(todo), 'episode')} of {run} in {place}")
            return
        run_interruptible(work(opened, todo))
        result = (
            agreement(opened, run, judge=asked.name, agent=agent)
            if which == "extra"
            else domain_results(opened, Selection(runs=[run], agents=[agent] if agent else None))
        )
    for table in agreement_tables(result) if isinstance(result, Agreement) else [domain_grid(result)]:
        console.print(table)
    if out is not None:
        write_out(out, result.model_dump_json(indent=2) + "\n")
