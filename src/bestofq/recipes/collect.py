"""Play an agent over the tasks of a split, and store its episodes as a run."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from pydantic import JsonValue

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.learned import Values
from bestofq.config.agents import AGENTS, AgentKind, keeping_vectors, make_agent
from bestofq.config.context import OpenSuite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.errors import InfraError
from bestofq.core.observation import Split
from bestofq.recipes.identity import current_provenance, mcts_identity, run_identity, tree_identity
from bestofq.recipes.tree_search import searching_agent
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import LiveProgress
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.configuration import DISCOUNT, GATE, TREES, Q
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

EXAMPLE = 120  # characters of a reply that is shown as an example


@dataclass(frozen=True)
class Play:
    """What is played: an agent on the tasks of a split."""

    kind: AgentKind = "prompting"
    repeats: int = 1  # passes over the tasks
    values: Values | None = None  # of the agents that rank by a Q-function
    split: Split = "train"
    limit: int | None = None  # tasks at most; None: `suite.train_tasks`
    n: int | None = None  # candidates a step; None: `n_candidates`
    name: str = ""  # that the episodes are stored under; empty: the kind of agent

    @property
    def agent(self) -> str:
        return self.name or self.kind


async def collect(models: Models, suite: OpenSuite, store: Store, run: str, play: Play) -> list[EpisodeSummary]:
    """Play all passes of `play`; the same call continues.

    On training tasks the vectors that the agent computes are stored too. If half of the episodes or more ended because
    the model had no valid action, the console says what to change. InfraError if every episode was cut. ConfigError as
    `AgentConfig.check`, before the run is begun.
    """
    AGENTS[play.kind].check(models.settings)
    settings, agent_name = models.settings, play.agent
    provenance = await begin(models, suite, store, run, play.split, play=play, values=play.values)
    with console.status("reading the tasks"):  # MiniWoB++'s are on its pages
        tasks = await suite.tasks(play.split, play.limit or settings.suite.train_tasks)
    with LiveProgress(run if agent_name == run else f"{run}: {agent_name}") as progress:
        options = RunOptions(
            seed=settings.seed,
            step_limit=suite.step_limit,
            provenance=provenance,
            judge=suite.judge,
            irreversible=suite.irreversible,
            progress=progress,
        )
        async with _open_agent(models, suite, store, play) as agent:
            done = await run_many(
                tasks,
                suite.make_env,
                agent,
                store=store,
                run=run,
                repeats=play.repeats,
                concurrency=settings.suite.at_once,
                options=options,
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
    q: dict[str, JsonValue] = {} if values is None else {Q: values.checkpoint, DISCOUNT: values.discount}
    if values and values.gate and settings.gate != "off":
        q[GATE] = list(values.gate.thresholds)
    if play is None:
        agents = {TREES: {**tree_identity(models), **q}}
    elif play.kind == "mcts":
        agents = {play.agent: {**mcts_identity(settings), **q}}
    else:
        own = AGENTS[play.kind].whole_identity(settings, play.n, q)
        agents = {play.agent: own} if own else {}
    await store.begin_run(run, run_identity(settings, split, suite.step_limit), made, agents=agents)
    return made


DEFAULT_AGENTS: tuple[AgentKind, ...] = ("prompting", "random", "picker", "best-of-q", "prior")


async def compare(
    models: Models, suite: OpenSuite, store: Store, run: str, play: Play, agents: Sequence[AgentKind] = DEFAULT_AGENTS
) -> None:
    """Play each of `agents` as `play` says, all in the run `run`. `play.values` go to those that read a Q-function.

    Raises ConfigError if one of them cannot be made, before the first plays.
    """
    for kind in agents:
        AGENTS[kind].check(models.settings)
    for kind in agents:
        values = play.values if AGENTS[kind].reads_q(models.settings) else None
        await collect(models, suite, store, run, replace(play, kind=kind, values=values))


@asynccontextmanager
async def _open_agent(models: Models, suite: OpenSuite, store: Store, play: Play) -> AsyncIterator[Agent]:
    async with AsyncExitStack() as stack:
        if play.split == "train":
            stack.enter_context(keeping_vectors(models, play.kind, store.vectors))
        if play.kind == "mcts":
            agent = await stack.enter_async_context(searching_agent(models, suite.simulator or suite, play.values))
        else:
            agent = make_agent(play.kind, models, play.values, n=play.n)
        yield replace(agent, name=play.agent)
