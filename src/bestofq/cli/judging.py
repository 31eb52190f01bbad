"""`bestofq judge`: what a judge makes of stored episodes."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.prompting import SCREENSHOTS
from bestofq.cli.config import load_config
from bestofq.cli.options import Judging, console
from bestofq.cli.settings import budget_of, hosts_of, open_existing_store, set_by
from bestofq.cli.writing import check_out, print_spending, write_out
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import Verdict
from bestofq.core.protocols import VisionModel
from bestofq.core.usage import Usage
from bestofq.models.chat import HERE, ChatConfig
from bestofq.recipes.judging import ClusterJudge, Which, episodes_to_judge, judge_run
from bestofq.reports.agreement import Agreement, agreement, agreement_tables
from bestofq.reports.domains import domain_grid, domain_results
from bestofq.reports.rows import Selection
from bestofq.rollouts.progress import bar
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


def judge_episodes(wanted: Judging) -> None:
    """Judge them, and print how often they succeeded, or how well the judge agrees with the environment."""
    check_out(wanted.out)
    run, agent = wanted.run, wanted.agent
    which: Which = "beside" if wanted.against_env else "all" if wanted.again else "open"
    models, chat = _chat(wanted)

    async def work(store: Store, judge: ChatJudge | ClusterJudge, todo: Sequence[EpisodeSummary]) -> None:
        usage: list[Usage] = []
        with bar(console, 20) as progress:
            line = progress.add_task(f"judging {run}", total=len(todo))

            def on_verdict(verdict: Verdict) -> None:
                usage.extend(verdict.usage)
                progress.advance(line)

            async with aclosing(models):
                counts = await judge_run(
                    store, todo, judge, adopt=which != "beside", concurrency=wanted.concurrency, on_verdict=on_verdict
                )
        console.print(f"judged now: {', '.join(f'{n} {outcome}' for outcome, n in counts.items()) or 'nothing new'}")
        print_spending(usage, "the judge")

    with Store.open(wanted.store, read_only=True) if wanted.dry_run else open_existing_store(wanted.store) as store:
        shown = 0 if wanted.base_url == HERE else SCREENSHOTS
        shown = shown if wanted.screenshots is None else wanted.screenshots
        make_judge = partial(ChatJudge, screenshots=shown, criteria=wanted.criteria)
        judge = make_judge(model=chat)
        todo = episodes_to_judge(store, run, judge, agent=agent, which=which)[: wanted.limit]
        if wanted.dry_run:
            console.print(f"{chat.name} would judge {len(todo):,} episodes of {run} in {wanted.store}")
            return
        with hosts_of(wanted.cluster, models, wanted.store) as hosts:
            asked = judge if hosts is None else ClusterJudge(hosts, models.settings, make_judge)
            run_interruptible(work(store, asked, todo))
        found = (
            agreement(store, run, judge=judge.name, agent=agent)
            if which == "beside"
            else domain_results(store, Selection(runs=[run], agents=[agent] if agent else None))
        )
    for table in agreement_tables(found) if isinstance(found, Agreement) else [domain_grid(found)]:
        console.print(table)
    if wanted.out is not None:
        write_out(wanted.out, found.model_dump_json(indent=2) + "\n")


def _chat(wanted: Judging) -> tuple[Models, VisionModel]:
    """The model that judges, and who closes it; the settings given are its own, but for those of the cluster."""
    named = set_by({"model": wanted.model, "base_url": wanted.base_url})
    cluster = [one for one in wanted.set_ or () if one.startswith("cluster.")]
    config = load_config(ChatConfig, None, [*named, *(one for one in wanted.set_ or () if one not in cluster)])
    settings = load_config(BestOfQSettings, None, cluster).model_copy(update={"judge": config})
    models = Models(settings, budget_of(wanted.budget))
    return models, models.in_role(config)
