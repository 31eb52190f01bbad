"""Failure analysis without an oracle: was the golden step among the candidates (Best-of-Q, 4.5, Fig. 3 and 10)?

A golden episode is the shortest successful one of the same task. The paper does not say which of its steps an agent's
step is held against. Here: the one taken on the same page; on a page that the golden episode never saw, the first of
its steps that the agent has not done yet. Other ways to the goal count as not proposed, as in the paper.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bestofq.agents.judges.golden import GoldenMatcher
from bestofq.core.concurrency import run_all
from bestofq.core.decision import Episode
from bestofq.core.errors import InputError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Usage
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

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
