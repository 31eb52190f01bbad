"""Failure analysis without an oracle: was the golden step among the candidates (Best-of-Q, 4.5, H, Fig. 3 and 10)?

A golden episode is the shortest successful one of the same task. The paper does not say which of its steps an agent's
step is held against. Here: the one taken on the same page; on a page that the golden episode never saw, the first of
its steps that the agent has not done yet. Other ways to the goal count as not proposed, as in the paper.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bestofq.agents.json_replies import object_schema
from bestofq.agents.prompting import GOLDEN, prompt_hash, render
from bestofq.agents.structured_output import Prompts, ask_json
from bestofq.cli.config import load_config
from bestofq.cli.options import RUNS, BaseUrl, Budget, Set, Stored, StoreOption
from bestofq.cli.shared import budget_of, set_by
from bestofq.cli.writing import check_out, print_usage, write_out
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import identity
from bestofq.core.concurrency import run_all, run_interruptible
from bestofq.core.decision import Candidate, Episode
from bestofq.core.errors import InputError, ReplyError
from bestofq.core.frozen import FrozenModel
from bestofq.core.language import Request, user
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import Usage
from bestofq.models.chat import ChatConfig
from bestofq.recipes.identity import commit, this_command
from bestofq.reports.origin import origin, runs_of
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from experiments.recall import failure_split_svg, recall_table

CONCURRENCY = 8  # episodes analysed at once
_SCHEMA = object_schema(
    {"rationale": {"type": "string"}, "contained": {"type": "boolean"}, "matched_index": {"type": ["integer", "null"]}}
)


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which candidate means what the golden step does; `read` is False where no reply could be read."""

    index: int | None
    rationale: str
    read: bool = True
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GoldenMatcher:
    """A chat model says whether a golden step is among candidates, in meaning. It is asked greedily. A candidate that
    says the same is found without asking; of several, the same action."""

    model: LanguageModel

    @property
    def name(self) -> str:
        """The model and the prompts' hash."""
        return f"{self.model.name}, prompt {prompt_hash(GOLDEN)[:8]}"

    async def match(self, goal: str, golden: Candidate, candidates: Sequence[Candidate]) -> Match:
        """ModelError when the endpoint gives no reply. A reply that cannot be read gets one repair turn."""
        same = [index for index, candidate in enumerate(candidates) if candidate.label == golden.label]
        if len(same) > 1:
            same = [i for i in same if identity(candidates[i].action) == identity(golden.action)]
        if same:
            return Match(index=same[0], rationale="it says the same")
        # What Fig. 10 asks for, in our words.
        text = render("golden_user", goal=goal, golden=golden, candidates=candidates)
        messages = user(text, system=render("golden_system"))

        async def prompts() -> Prompts:
            yield Request(messages=messages, schema=_SCHEMA, name="match"), None

        found, usage = await ask_json(
            self.model,
            prompts(),
            lambda data: _read(data, len(candidates)),
            "judge",
            lambda error: Match(index=None, rationale=str(error), read=False),
        )
        return replace(found, usage=usage)


def _read(data: dict[str, Any], count: int) -> Match:
    """ReplyError in words that help the model fix it."""
    if not isinstance(data.get("contained"), bool):
        raise ReplyError('"contained" must be true or false')
    rationale = " ".join(str(data.get("rationale", "")).split())
    index = data.get("matched_index") if data["contained"] else None
    if data["contained"] and (isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count):
        raise ReplyError(f'"matched_index" is {index!r}: it must be a whole number from 0 to {count - 1}')
    return Match(index=index, rationale=rationale)


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
    """What an agent's failures showed."""

    steps: list[GoldenStep] = field(default_factory=list)
    episodes: int = 0
    without_golden: int = 0  # episodes of tasks that nobody solved
    unread: int = 0  # steps about which no reply could be read
    usage: list[Usage] = field(default_factory=list)


async def golden_findings(
    store: Store,
    matcher: GoldenMatcher,
    *,
    run: str,
    agent: str,
    golden_store: Store | None = None,
    golden_run: str | None = None,
    golden_agent: str | None = None,
    on_episode: Callable[[], None] = lambda: None,
) -> GoldenFindings:
    """The agent's failures in a run, against golden episodes: by default of any agent in any run of the same store.

    Raises InputError when there is no failure to analyse or no golden episode for any; ModelError when the model gives
    no reply.
    """
    failed = [e for e in store.summaries(run=run, agent=agent) if e.decided and e.steps and not e.success]
    if not failed:
        raise InputError(f"there is no failed episode of agent {agent!r} in run {run!r}")
    source = golden_store or store
    best = shortest_successes(source, golden_run, golden_agent)
    pairs = [(e, best[e.key[:2]]) for e in failed if e.key[:2] in best]
    if not pairs:
        where = f" in run {golden_run!r}" if golden_run else ""
        whose = f" by {golden_agent}" if golden_agent else ""
        raise InputError(f"none of the {len(failed)} episodes has a task solved{whose}{where}: no golden episode")
    found = GoldenFindings(without_golden=len(failed) - len(pairs))
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(summary: EpisodeSummary, golden: EpisodeSummary) -> None:
        async with gate:
            await hold_against(store.episode(summary.id), source.episode(golden.id), matcher, found)
        found.episodes += 1
        on_episode()

    await run_all(one(*pair) for pair in pairs)
    found.steps.sort(key=lambda step: (step.task, step.episode, step.step))
    return found


def shortest_successes(store: Store, run: str | None, agent: str | None) -> dict[tuple[str, str], EpisodeSummary]:
    """By suite and task, of an agent in a run, or of all. InputError where there is no such run."""
    names = [record.name for record in store.runs()]
    if run is not None and run not in names:
        raise InputError(f"there is no run {run!r} for golden episodes: give --golden-run one of {', '.join(names)}")
    won = [e for e in store.summaries(run=run, agent=agent) if e.success and e.steps]
    return {e.key[:2]: e for e in sorted(won, key=lambda e: e.steps)[::-1]}  # the shortest comes last and stays


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

    async def work(opened: Store, source: Store) -> GoldenFindings:
        with bar() as progress:
            line = progress.add_task("episodes", total=None)
            async with aclosing(models):
                return await golden_findings(
                    opened,
                    matcher,
                    run=run,
                    agent=agent,
                    golden_store=source,
                    golden_run=golden_run,
                    golden_agent=golden_agent,
                    on_episode=lambda: progress.advance(line),
                )

    with Store.open(store, read_only=True) as opened, Store.open(golden_store or store, read_only=True) as source:
        found = run_interruptible(work(opened, source))
        played = [tally for tally in opened.tallies([run]) if tally.agent == agent]
        made = {agent: origin(played, runs_of(opened))}
    rater = f"{matcher.name}, against one golden episode a task"
    table = recall_table({agent: found.steps}, rater=rater, made=made)
    console.print(table)
    console.print(
        f"{found.episodes} episodes; {found.without_golden} more have no golden episode; "
        f"{found.unread} steps left out, no reply about them could be read"
    )
    print_usage(found.usage, "the model")
    if out is not None:
        result = {
            "run": run,
            "agent": agent,
            "store": str(store),
            "golden_store": str(golden_store or store),
            "commit": commit(),
            "command": this_command(),
            "matcher": matcher.name,
            "episodes": found.episodes,
            "recall": table.model_dump(mode="json"),
            "without_golden": found.without_golden,
            "unread": found.unread,
            "steps": [step.model_dump(mode="json") for step in found.steps],
        }
        write_out(out, result)
    if svg is not None and found.steps:
        write_out(svg, failure_split_svg(found.steps))
