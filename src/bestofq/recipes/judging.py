"""Verdicts on stored episodes, given afterwards: on episodes without one, or in addition to the environment's."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from bestofq.config.context import OpenSuite, open_workers
from bestofq.config.models import Models
from bestofq.core.decision import Outcome, Verdict
from bestofq.core.errors import InputError
from bestofq.core.protocols import Judge
from bestofq.rollouts.episode import ended_by_itself
from bestofq.rollouts.resuming import with_pictures
from bestofq.rollouts.workers import Do, Hosts, Report, Worker, work_off
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

Which = Literal["open", "all", "extra"]
OPEN: tuple[Outcome, ...] = ("unjudged", "unparseable")


def episodes_to_judge(
    store: Store, run: str, judge: Judge, *, agent: str | None = None, which: Which = "open"
) -> list[EpisodeSummary]:
    """Return a run's finished episodes that `judge` is to judge: they have a step and ended by themselves.

    Args:
        which: "open", those without a verdict (unjudged, unparseable). "all", also those that a judge has judged.
            "extra", those that this judge has not judged yet; the environment's verdicts stay in force.

    Raises InputError if there is no such run, or if no judge may judge any episode of it.
    """
    extra = which == "extra"
    if run not in (names := [record.name for record in store.runs()]):
        raise InputError(f"there is no run {run!r} in the store: it has {', '.join(names) or 'none'}")
    theirs = [e for e in store.summaries(run=run, agent=agent) if _is_judges(e, extra)]
    if not theirs:
        raise InputError(
            f"run {run!r} has no finished episode for a judge: "
            + ("none ended by itself" if extra else "the environment has judged all (compare: --against-env)")
        )
    if extra:
        judged = store.verdicts(run=run, agent=agent, judge=judge.name).get(judge.name, {})
        return [e for e in theirs if e.id not in judged or judged[e.id].outcome in OPEN]
    return [e for e in theirs if which == "all" or e.outcome in OPEN]


MakeJudge = Callable[[Models], Judge]


async def judge_run(
    models: Models,
    store: Store,
    episodes: Sequence[EpisodeSummary],
    make_judge: MakeJudge,
    *,
    adopt: bool = True,
    concurrency: int = 16,
    hosts: Hosts | None = None,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Counter[Outcome]:
    """Have `episodes` judged, `concurrency` at once (in each of `hosts`). Return the number of each outcome.

    This process alone commits each verdict as it comes: in force (`adopt`), or in addition to the environment's. Errors
    as the judge's.
    """
    outcomes: Counter[Outcome] = Counter()

    async def work(worker: Worker, episode: str) -> None:
        verdict: Verdict = await worker.do(episode)
        await store.add_verdict(episode, verdict, adopt=adopt)
        outcomes[verdict.outcome] += 1
        if on_verdict is not None:
            on_verdict(verdict)

    at_once = min(concurrency, len(episodes))
    opens = partial(_open_judge, make_judge)
    async with open_workers(opens, models, None, store, at_once=at_once, hosts=hosts) as workers:
        await work_off([episode.id for episode in episodes], workers, work)
    return outcomes


@asynccontextmanager
async def _open_judge(
    make_judge: MakeJudge, models: Models, _: OpenSuite | None, store: Store, report: Report
) -> AsyncIterator[Do]:
    yield partial(_judge_episode, store, make_judge(models))


async def _judge_episode(store: Store, judge: Judge, name: str) -> Verdict:
    return await judge.judge(with_pictures(store.episode(name), store))


def _is_judges(episode: EpisodeSummary, extra: bool) -> bool:
    theirs = bool(episode.judge) or episode.outcome == "unjudged"
    return episode.steps > 0 and ended_by_itself(episode) and (theirs != extra)
