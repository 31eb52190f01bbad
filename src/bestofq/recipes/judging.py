"""Verdicts on stored episodes, given afterwards: on episodes without one, or in addition to the environment's."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

from bestofq.core.concurrency import work_off
from bestofq.core.decision import Outcome, Verdict
from bestofq.core.errors import InputError
from bestofq.core.protocols import Judge
from bestofq.rollouts.episode import ended_by_itself
from bestofq.rollouts.resuming import with_pictures
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
    ended = [e for e in store.summaries(run=run, agent=agent) if e.steps and ended_by_itself(e)]
    theirs = [e for e in ended if (bool(e.judge) or e.outcome == "unjudged") != extra]
    if not theirs:
        raise InputError(
            f"run {run!r} has no finished episode for a judge: "
            + ("none ended by itself" if extra else "the environment has judged all (compare: --against-env)")
        )
    if extra:
        judged = store.verdicts(run=run, agent=agent, judge=judge.name).get(judge.name, {})
        return [e for e in theirs if e.id not in judged or judged[e.id].outcome in OPEN]
    return [e for e in theirs if which == "all" or e.outcome in OPEN]


async def judge_run(
    store: Store,
    episodes: Sequence[EpisodeSummary],
    judge: Judge,
    *,
    adopt: bool = True,
    concurrency: int = 16,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Counter[Outcome]:
    """Have `episodes` judged, `concurrency` at once. Return the number of each outcome. Errors as the judge's.

    Each verdict is committed as it comes: in force (`adopt`), or in addition to the environment's.
    """
    outcomes: Counter[Outcome] = Counter()

    async def judge_episode(episode: EpisodeSummary) -> None:
        verdict = await judge.judge(with_pictures(store.episode(episode.id), store))
        await store.add_verdict(episode.id, verdict, adopt=adopt)
        outcomes[verdict.outcome] += 1
        if on_verdict is not None:
            on_verdict(verdict)

    await work_off(deque(episodes), judge_episode, concurrency)
    return outcomes
