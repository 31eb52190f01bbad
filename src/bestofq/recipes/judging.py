"""Verdicts on stored episodes, given afterwards: those that none was given on, or beside the environment's own."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode, Outcome, Verdict
from bestofq.core.errors import InputError
from bestofq.core.observation import Observation
from bestofq.core.protocols import Judge
from bestofq.rollouts.episode import ended_by_itself
from bestofq.rollouts.shared import Shared
from bestofq.rollouts.workers import Here, Worker, queue_of, work_off
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Hosts

Which = Literal["open", "all", "beside"]
OPEN: tuple[Outcome, ...] = ("unjudged", "unparseable")


def episodes_to_judge(
    store: Store, run: str, judge: Judge, *, agent: str | None = None, which: Which = "open"
) -> list[EpisodeSummary]:
    """A run's finished episodes with a step that ended by themselves and that `judge` is to judge.

    `which`: "open", the episodes without a verdict (unjudged, unparseable); "all", also those that a judge has judged;
    "beside", those that this judge has not judged yet, whose verdicts of the environment stay in force.

    Raises InputError when there is no such run, or no episode of it is a judge's to judge.
    """
    beside = which == "beside"
    if run not in (names := [record.name for record in store.runs()]):
        raise InputError(f"there is no run {run!r} in the store: it has {', '.join(names) or 'none'}")
    theirs = [e for e in store.summaries(run=run, agent=agent) if _is_judges(e, beside)]
    if not theirs:
        raise InputError(
            f"no finished episode of run {run!r} with a step is a judge's to judge: "
            + ("none ended by itself" if beside else "its verdicts are its environment's (compare: --against-env)")
        )
    if beside:
        judged = store.verdicts(run=run, agent=agent, judge=judge.name).get(judge.name, {})
        return [e for e in theirs if e.id not in judged or judged[e.id].outcome in OPEN]
    return [e for e in theirs if which == "all" or e.outcome in OPEN]


@dataclass(frozen=True)
class ClusterJudge:
    """Processes of a cluster that judge, each by what `make_judge` makes of the model of the setting `judge`."""

    hosts: "Hosts"
    settings: BestOfQSettings
    make_judge: Callable[..., Judge]  # called with `model`


async def judge_run(
    store: Store,
    episodes: Sequence[EpisodeSummary],
    judge: Judge | ClusterJudge,
    *,
    adopt: bool = True,
    concurrency: int = 16,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Counter[Outcome]:
    """Have `episodes` judged, `concurrency` at once (in each process of a cluster); how many came to each outcome now.
    Each verdict is committed as it comes, by this process alone, in force (`adopt`) or beside the environment's. Errors
    as the judge's."""
    todo = queue_of(episode.id for episode in episodes)
    given: Counter[Outcome] = Counter()

    async def work(worker: Worker, episode: str) -> None:
        verdict: Verdict = await worker.do(episode)
        await store.add_verdict(episode, verdict, adopt=adopt)
        given[verdict.outcome] += 1
        if on_verdict is not None:
            on_verdict(verdict)

    at_once = min(concurrency, len(episodes))
    if isinstance(judge, ClusterJudge):
        async with judge.hosts.open_hosts(partial(_open_there, judge), at_once, store) as found:
            await work_off(todo, found, work)
    else:
        await work_off(todo, [Here(partial(_judge_episode, store, judge))] * at_once, work)
    return given


@asynccontextmanager
async def _open_there(
    judge: ClusterJudge, shared: Shared
) -> AsyncIterator[tuple[Callable[[str], Awaitable[Verdict]], str]]:
    models, chosen = Models(judge.settings, shared.budget, shared.models), judge.settings.endpoint_of("judge")
    assert chosen is not None
    async with aclosing(models):
        with Store.open(judge.hosts.store) as store:
            yield partial(_judge_episode, store, judge.make_judge(model=models.in_role(chosen))), store.writer


async def _judge_episode(store: Store, judge: Judge, episode: str) -> Verdict:
    return await judge.judge(with_pictures(store, store.episode(episode)))


def with_pictures(store: Store, episode: Episode) -> Episode:
    """The episode with the bytes of its screenshots. DataError when the store lacks one."""

    def seen(observation: Observation) -> Observation:
        if observation.screenshot is None:
            return observation
        return observation.model_copy(update={"screenshot": store.screenshots.load(observation.screenshot)})

    steps = tuple(step.model_copy(update={"observation": seen(step.observation)}) for step in episode.steps)
    final = None if episode.final is None else seen(episode.final)
    return episode.model_copy(update={"steps": steps, "final": final})


def _is_judges(episode: EpisodeSummary, beside: bool) -> bool:
    """Whether a judge may judge what was done: beside the environment's verdict, or where that is none."""
    theirs = bool(episode.judge) or episode.outcome == "unjudged"
    return episode.steps > 0 and ended_by_itself(episode) and (theirs != beside)
