"""`bestofq judge`: what a judge makes of stored episodes; with `--golden` where steps go wrong (Fig. 3 and 10)."""

from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.judges.golden import GoldenMatcher
from bestofq.agents.prompting import GOLDEN, SCREENSHOTS, prompt_hash
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
from bestofq.recipes.golden import Golden, GoldenFindings, golden_findings
from bestofq.recipes.judging import ClusterJudge, Which, episodes_to_judge, judge_run
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


def judge_steps(wanted: Judging) -> None:
    """Ask a model whether the golden step was among the candidates: was it not proposed, or not chosen?"""
    check_out(wanted.out, wanted.svg)
    run, agent = wanted.run, wanted.agent or "best-of-q"
    models, chat = _chat(wanted)
    matcher = GoldenMatcher(model=chat)

    async def work(store: Store, golden: Golden) -> GoldenFindings:
        with bar(console) as progress:
            line = progress.add_task("episodes", total=wanted.limit)
            async with aclosing(models):
                return await golden_findings(
                    store,
                    matcher,
                    run=run,
                    agent=agent,
                    golden=golden,
                    failures=not wanted.all_,
                    limit=wanted.limit,
                    on_episode=lambda: progress.advance(line),
                )

    golden = Golden(run=wanted.golden_run, agent=wanted.golden_agent, ids=wanted.golden_episode or ())
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(wanted.store, read_only=True))
        if wanted.golden_store:
            golden = replace(golden, store=stack.enter_context(Store.open(wanted.golden_store, read_only=True)))
        found = run_interruptible(work(store, golden))
        made = origins(store, store.summaries(run=run, agent=agent))
    rows = [recall(agent, found.steps)]
    console.print(recall_table(rows, made, rater=f"{matcher.name}, against one golden episode a task"))
    console.print(
        f"{found.episodes} episodes; {found.without_golden} more have no golden episode; "
        f"{found.own_golden} are their own golden one; {found.unread} steps left out, no reply about them could be read"
    )
    print_spending(found.usage, "the model")
    if wanted.out is not None:
        here = current_provenance(prompts=prompt_hash(GOLDEN), seed=0)
        result = {
            "run": run,
            "agent": agent,
            "store": str(wanted.store),
            "golden_store": str(wanted.golden_store or wanted.store),
            "golden": [{"id": e.id, "run": e.run, "agent": e.agent, "task": e.key.task} for e in found.golden],
            "commit": here.commit,
            "command": here.command,
            "matcher": matcher.name,
            "episodes": found.episodes,
            "own_golden": found.own_golden,
            "recall": rows[0].model_dump(mode="json"),
            "without_golden": found.without_golden,
            "unread": found.unread,
            "steps": [step.model_dump(mode="json") for step in found.steps],
        }
        write_out(wanted.out, result)
    if wanted.svg is not None and found.steps:
        write_out(wanted.svg, failure_split_svg(rows[0].split))


def _chat(wanted: Judging) -> tuple[Models, VisionModel]:
    """The model that judges, and who closes it; the settings given are its own, but for those of the cluster."""
    named = set_by({"model": wanted.model, "base_url": wanted.base_url})
    cluster = [one for one in wanted.set_ or () if one.startswith("cluster.")]
    config = load_config(ChatConfig, None, [*named, *(one for one in wanted.set_ or () if one not in cluster)])
    settings = load_config(BestOfQSettings, None, cluster).model_copy(update={"judge": config})
    models = Models(settings, budget_of(wanted.budget))
    return models, models.in_role(config)
