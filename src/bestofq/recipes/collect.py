"""Play an agent over the tasks of a split, here or in the processes of a cluster, and store its episodes as a run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue

from bestofq.agents.scorers.learned import Values
from bestofq.config.agents import AgentKind, agent_config, check_agent, keeping_vectors, make_agent, reads_q
from bestofq.config.context import OpenSuite, may_repeat_of, opened_there
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.errors import ConfigError, InfraError
from bestofq.core.observation import Split
from bestofq.recipes.provenance import current_provenance
from bestofq.recipes.run_config import Searcher, run_config, search_config_of
from bestofq.recipes.tree_search import searching_agent
from bestofq.rollouts.console import console
from bestofq.rollouts.players import LocalPlayer, PlayedEpisode, PlayerSlot
from bestofq.rollouts.progress import LiveProgress, Progress
from bestofq.rollouts.runner import RunOptions, play_all
from bestofq.rollouts.shared import Shared
from bestofq.rollouts.workers import Worker
from bestofq.store.configuration import DISCOUNT, Q
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Hosts

EXAMPLE = 120  # characters of a reply that is shown as an example


@dataclass(frozen=True)
class Play:
    """What is played: an agent on the tasks of a split."""

    kind: AgentKind
    repeats: int = 1  # passes over the tasks
    values: Values | None = None  # of the agents that rank by a Q-function
    split: Split = "train"
    limit: int | None = None  # tasks at most; None: `suite.train_tasks`
    n: int | None = None  # candidates a step; None: `n_candidates`
    name: str = ""  # that the episodes are stored under; empty: the kind of agent

    @property
    def agent(self) -> str:
        return self.name or self.kind


async def collect(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    play: Play,
    *,
    hosts: "Hosts | None" = None,
    simulator: OpenSuite | None = None,
) -> list[EpisodeSummary]:
    """All passes of `play`; resumes what was begun.

    On training tasks the vectors that the agent computes are stored too. A searching agent searches in `simulator`,
    whose pages must be those of `suite`; None: in that itself. Where half of the episodes or more ended for
    want of a valid action, the console says what to change. InfraError where every episode was cut; ConfigError as
    `check_agent`, before the run is begun.
    """
    check_agent(play.kind, models)
    settings, agent_name = models.settings, play.agent
    provenance = await begin(models, suite, store, run, play.split, play=play, values=play.values)
    with console.status("reading the tasks"):  # MiniWoB++'s stand on its pages
        tasks = await suite.tasks(play.split, play.limit or settings.suite.train_tasks)
    label = run if agent_name == run else f"{run}: {agent_name}"
    with LiveProgress(label) as progress:
        options = run_options(models, suite, provenance, progress)
        async with players(models, suite, store, run, play, options, hosts, simulator) as found:
            done = await play_all(
                tasks, found, store=store, run=run, agent=agent_name, repeats=play.repeats, options=options
            )
    if not done and (cut := store.summaries(run=run, agent=agent_name, status="cut")):
        raise InfraError(
            f"no episode of {agent_name} in {run} came to its end: all were cut, one by {cut[-1].reason!r}; "
            "fix that, then run the same command again"
        )
    ended = [episode for episode in done if episode.verdict.replies is not None]
    if ended and 2 * len(ended) >= len(done):
        console.print(_without_action(settings, ended, len(done)), style="yellow", markup=False)
    return done


def _without_action(settings: BestOfQSettings, ended: Sequence[EpisodeSummary], of: int) -> str:
    """Why these episodes ended: their model's replies were no valid actions."""
    last = ended[-1]
    example = next((reply for reply in last.verdict.replies or () if reply.strip()), "")
    taught = settings.suite.taught
    advice = f"--model {taught}" if taught and taught != settings.model.path else "another --model"
    return (
        f"{len(ended)} of {of} episodes of {last.agent} in {last.run} ended because the model replied no valid action, "
        f"for example {example[:EXAMPLE]!r} ({last.reason}): try {advice}."
    )


async def begin(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    split: Split,
    *,
    play: Play | None = None,
    values: Values | None = None,
) -> Provenance:
    """Begin or continue a run: of `play`, or of searches for trees where there is none. DataError when it was begun
    with other settings, of its searches or its agent too, or with another Q-function than `values`."""
    settings = models.settings
    made = current_provenance(prompts=models.prompts, seed=settings.seed)
    searcher: Searcher | None = "trees" if play is None else "mcts" if play.kind == "mcts" else None
    q: dict[str, JsonValue] = {} if values is None else {Q: values.checkpoint, DISCOUNT: values.discount}
    await store.begin_run(
        run,
        run_config(settings, split, suite.step_limit),
        made,
        searches={searcher: {**search_config_of(models, searcher), **q}} if searcher else {},
        agents={play.agent: own} if play and (own := agent_config(settings, play.kind, play.n, q)) else {},
    )
    return made


AGENTS: tuple[AgentKind, ...] = ("prompting", "random", "picker", "best-of-q", "prior")


async def compare(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    agents: Sequence[AgentKind] = AGENTS,
    *,
    values: Values | None,
    split: Split,
    tasks: int,
    runs: int,
    n: int | None = None,
    hosts: "Hosts | None" = None,
) -> None:
    """`runs` passes of each agent over the first `tasks` tasks of a split, stored as the run `run`. ConfigError where
    one of them cannot be made, before the first plays."""
    for kind in agents:
        check_agent(kind, models)
    for kind in agents:
        ranked_by = values if reads_q(models.settings, kind) else None
        play = Play(kind, runs, ranked_by, split=split, limit=tasks, n=n)
        await collect(models, suite, store, run, play, hosts=hosts)


def run_options(models: Models, suite: OpenSuite, provenance: Provenance | None, progress: Progress) -> RunOptions:
    return RunOptions(
        seed=models.settings.seed,
        step_limit=suite.step_limit,
        provenance=provenance,
        judge=suite.judge,
        may_repeat=may_repeat_of(suite.irreversible),
        progress=progress,
    )


@asynccontextmanager
async def players(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    play: Play,
    options: RunOptions,
    hosts: "Hosts | None" = None,
    simulator: OpenSuite | None = None,
) -> AsyncIterator[Sequence[Worker]]:
    """One for each episode that is played at once; `simulator` as for `collect`. ConfigError where a cluster is to
    search in one."""
    made, at_once = options.provenance, models.settings.suite.at_once
    if hosts is not None:
        if simulator is not None:
            raise ConfigError("a cluster searches in the suite itself: leave --cluster or the simulator out")
        opens = partial(_open_there, models.settings, hosts.store, run, play, made)
        from bestofq.rollouts.cluster import HostPlayer

        async with hosts.open_hosts(opens, at_once, store, options.progress) as found:
            yield [HostPlayer(host, store) for host in found]
    else:
        heard = replace(options, on_step=lambda step: options.progress.step(step.decision.usage))
        async with _local(models, suite, store, run, play, heard, simulator) as player:
            yield [player] * at_once


@asynccontextmanager
async def _local(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    play: Play,
    options: RunOptions,
    simulator: OpenSuite | None = None,
) -> AsyncIterator[LocalPlayer]:
    kept = keeping_vectors(models, play.kind, store.vectors) if play.split == "train" else nullcontext()
    searching = play.kind == "mcts"
    with kept:
        async with (
            searching_agent(models, simulator or suite, play.values)
            if searching
            else nullcontext(make_agent(play.kind, models, play.values, n=play.n)) as agent,
            LocalPlayer(suite.make_env, replace(agent, name=play.agent), store, run, options) as player,
        ):
            yield player


@asynccontextmanager
async def _open_there(
    settings: BestOfQSettings, where: Location, run: str, play: Play, provenance: Provenance | None, shared: Shared
) -> AsyncIterator[tuple[Callable[[PlayerSlot], Awaitable[PlayedEpisode]], str]]:
    from bestofq.rollouts.cluster import play_here

    async with opened_there(settings, where, shared) as (models, suite, store):
        options = run_options(models, suite, provenance, Progress())
        heard = replace(options, on_step=lambda step: shared.steps.append(step.decision.usage))
        async with _local(models, suite, store, run, play, heard) as player:
            yield partial(play_here, player, store), store.writer
