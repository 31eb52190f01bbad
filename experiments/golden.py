"""Failure analysis without an oracle: was the golden step among the candidates (Best-of-Q, 4.5, Fig. 3 and 10)?

A golden episode is the shortest successful one of the same task. The paper does not say which of its steps an agent's
step is held against. Here: the one taken on the same page; on a page that the golden episode never saw, the first of
its steps that the agent has not done yet. Other ways to the goal count as not proposed, as in the paper.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from bestofq.agents.prompting import GOLDEN, prompt_hash
from bestofq.cli.config import load_config
from bestofq.cli.options import RUNS, BaseUrl, Budget, Set, Stored, StoreOption
from bestofq.cli.shared import budget_of, set_by
from bestofq.cli.writing import check_out, print_usage, write_out
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_all, run_interruptible
from bestofq.core.decision import Episode
from bestofq.core.errors import InputError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Usage
from bestofq.models.chat import ChatConfig
from bestofq.recipes.identity import current_provenance
from bestofq.reports.origin import origin, runs_of
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from experiments.golden_matcher import GoldenMatcher
from experiments.recall import failure_split_svg, recall_table, split_failures

CONCURRENCY = 8  # episodes analysed at once


class GoldenStep(FrozenModel):
    """A step held against the golden one: `good` marks the candidate that means it, if any."""

    episode: str
    step: int
    golden_episode: str
    golden: str  # what was right, in words
    task: tuple[str, str]
    good: tuple[bool, ...]
    chosen: int
    rationale: str


@dataclass(kw_only=True)
class GoldenFindings:
    """What an agent's episodes showed."""

    steps: list[GoldenStep] = field(default_factory=list)
    episodes: int = 0
    without_golden: int = 0  # episodes of tasks that nobody solved
    own_golden: int = 0  # episodes that are themselves the golden one of their task
    golden: list[EpisodeSummary] = field(default_factory=list)  # what was held against, one a task
    unread: int = 0  # steps about which no reply could be read
    usage: list[Usage] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Which episodes are golden: those of `ids`; without, the shortest success of a task in `run`, or in all runs, of
    `agent`, or of any. `store` None: the store of the episodes that are analysed."""

    store: Store | None = None
    run: str | None = None
    agent: str | None = None
    ids: Sequence[str] = ()


ANY = Golden()


async def golden_findings(
    store: Store,
    matcher: GoldenMatcher,
    *,
    run: str,
    agent: str,
    golden: Golden = ANY,
    failures: bool = True,
    limit: int | None = None,
    on_episode: Callable[[], None] | None = None,
) -> GoldenFindings:
    """The agent's finished episodes in a run (its failures only, unless `failures` is False), `limit` at most, against
    golden ones other than themselves.

    Raises InputError when there is no episode to analyse, no golden one for any of them, or none as named; ModelError
    when the model gives no reply.
    """
    theirs = [e for e in store.summaries(run=run, agent=agent) if e.decided and e.steps]
    theirs = [e for e in theirs if not (failures and e.success)]
    if not theirs:
        kind = "failed" if failures else "finished"
        raise InputError(f"there is no {kind} episode of agent {agent!r} in run {run!r}")
    source = golden.store or store
    chosen = _golden(source, golden)
    solved = [(e, chosen[e.key[:2]]) for e in theirs if e.key[:2] in chosen]
    pairs = [(e, best) for e, best in solved if best.id != e.id][:limit]
    own = sum(best.id == e.id for e, best in solved)
    if not solved:
        where = f" in run {golden.run!r}" if golden.run else ""
        whose = f" by {golden.agent}" if golden.agent else " as in --golden-episode" if golden.ids else ""
        raise InputError(f"none of the {len(theirs)} episodes has a task solved{whose}{where}: no golden episode")
    if not pairs:
        raise InputError(
            f"{own} of the episodes are the golden ones themselves, the others have none: "
            "choose another's by --golden-agent, --golden-run or --golden-store"
        )
    found = GoldenFindings(
        without_golden=len(theirs) - len(solved),
        own_golden=own,
        golden=list({best.id: best for _, best in pairs}.values()),
    )
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(summary: EpisodeSummary, best: EpisodeSummary) -> None:
        async with gate:
            await hold_against(store.episode(summary.id), source.episode(best.id), matcher, found)
        found.episodes += 1
        if on_episode is not None:
            on_episode()

    await run_all(one(summary, best) for summary, best in pairs)
    found.steps.sort(key=lambda step: (step.task, step.episode, step.step))
    return found


def _golden(store: Store, golden: Golden) -> dict[tuple[str, str], EpisodeSummary]:
    """By suite and task, the shortest success. InputError where there is no such run, or one of `ids` is none."""
    run, agent, ids = golden.run, golden.agent, golden.ids
    if ids and (run or agent):
        raise InputError("--golden-episode says which episode is golden: leave out --golden-run and --golden-agent")
    names = [record.name for record in store.runs()]
    if run is not None and run not in names:
        raise InputError(f"there is no run {run!r} for golden episodes: give --golden-run one of {', '.join(names)}")
    found = store.summaries(run=run, agent=agent)
    known = {episode.id: episode for episode in found}
    for episode in ids:
        if episode not in known or not known[episode].success or not known[episode].steps:
            what = "no success" if episode in known else "not in the store"
            raise InputError(
                f"the episode {episode!r} is {what}: give --golden-episode the id of a successful one, as "
                "`bestofq view STORE` shows, and --golden-store its folder"
            )
    won = [e for e in ([known[episode] for episode in ids] if ids else found) if e.success and e.steps]
    longest_first = sorted(won, key=lambda e: e.steps)[::-1]
    return {e.key[:2]: e for e in longest_first}


async def hold_against(episode: Episode, golden: Episode, matcher: GoldenMatcher, found: GoldenFindings) -> None:
    """Add the episode's steps to `found`, until the golden episode's last step is done."""
    pages = {step.observation.page: step.index for step in golden.steps[::-1]}  # where the golden one is there first
    due = 0  # the first golden step that the agent has not done
    for step in episode.steps:
        at = pages.get(step.observation.page, due)
        if at >= len(golden.steps):
            break
        right = golden.steps[at].decision.candidate
        decision = step.decision
        match = await matcher.match(episode.task.goal, right, decision.candidates)
        found.usage.extend(match.usage)
        if not match.read:
            found.unread += 1
            continue
        found.steps.append(
            GoldenStep(
                episode=episode.id,
                step=step.index,
                golden_episode=golden.id,
                golden=right.label,
                task=(episode.task.suite, episode.task.id),
                good=tuple(index == match.index for index in range(len(decision.candidates))),
                chosen=decision.chosen,
                rationale=match.rationale,
            )
        )
        if match.index == decision.chosen:
            due = max(due, at + 1)


def golden(
    run: Annotated[str, typer.Option(help="Whose episodes to analyse.")],
    model: Annotated[str, typer.Option(help="Who compares: the endpoint's name for it.")],
    base_url: BaseUrl = None,
    store: Stored = RUNS,
    agent: Annotated[str, typer.Option(help="Only this agent's episodes.")] = "best-of-q",
    golden_agent: Annotated[str | None, typer.Option(help="Whose successes are golden. Default: anyone's.")] = None,
    golden_run: Annotated[str | None, typer.Option(help="Run of golden episodes. Default: all.")] = None,
    golden_store: Annotated[
        Location | None, StoreOption("--golden-store", help="Of golden episodes. Default: --store.")
    ] = None,
    golden_episode: Annotated[
        list[str] | None, typer.Option(help="Id of a golden one. Repeatable. Default: each task's shortest success.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Successful episodes too, not failures alone.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many episodes at most.")] = None,
    set_: Set = None,
    out: Annotated[Path | None, typer.Option(help="JSON file for the result.")] = None,
    svg: Annotated[Path | None, typer.Option(help="File for the picture (Fig. 3), SVG.")] = None,
    budget: Budget = None,
) -> None:
    """Compare failures with a golden episode of their task: was the right step not proposed, or not chosen?"""
    check_out(out, svg)
    chat = load_config(ChatConfig, None, [*set_by({"model": model, "base_url": base_url}), *(set_ or ())])
    models = Models(BestOfQSettings(endpoints={"judge": chat}), budget_of(budget))
    matcher = GoldenMatcher(model=models.in_role(chat))

    async def work(source: Store, which: Golden) -> GoldenFindings:
        with bar() as progress:
            line = progress.add_task("episodes", total=limit)
            async with aclosing(models):
                return await golden_findings(
                    source,
                    matcher,
                    run=run,
                    agent=agent,
                    golden=which,
                    failures=not all_,
                    limit=limit,
                    on_episode=lambda: progress.advance(line),
                )

    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(store, read_only=True))
        theirs = stack.enter_context(Store.open(golden_store, read_only=True)) if golden_store else None
        which = Golden(store=theirs, run=golden_run, agent=golden_agent, ids=golden_episode or ())
        found = run_interruptible(work(opened, which))
        played = [tally for tally in opened.tallies([run]) if tally.agent == agent]
        made = {agent: origin(played, runs_of(opened))}
    rater = f"{matcher.name}, against one golden episode a task"
    table = recall_table({agent: found.steps}, rater=rater, made=made)
    console.print(table)
    console.print(
        f"{found.episodes} episodes; {found.without_golden} more have no golden episode; "
        f"{found.own_golden} are their own golden one; {found.unread} steps left out, no reply about them could be read"
    )
    print_usage(found.usage, "the model")
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
            "matcher": matcher.name,
            "episodes": found.episodes,
            "own_golden": found.own_golden,
            "recall": table.model_dump(mode="json"),
            "without_golden": found.without_golden,
            "unread": found.unread,
            "steps": [step.model_dump(mode="json") for step in found.steps],
        }
        write_out(out, result)
    if svg is not None and found.steps:
        write_out(svg, failure_split_svg(*split_failures(found.steps)))
