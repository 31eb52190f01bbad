"""Best-of-Q (arXiv 2601.22701, A.2): collect with an exploring agent → train Q and V → exploit → add data → retrain."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bestofq.agents.agent import Agent
from bestofq.core.decision import Episode, Provenance
from bestofq.core.embedding import EmbedItem
from bestofq.core.errors import InfraError, InputError
from bestofq.core.observation import Split
from bestofq.core.transitions import Floats, Transitions
from bestofq.learning.checkpoint import CARD, export_value, load_value
from bestofq.learning.iql import IQL, IQLConfig, train_iql
from bestofq.learning.value import ValueModel
from bestofq.models.embed_once import VectorStore
from bestofq.recipes.bars import bar
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import current_provenance
from bestofq.recipes.run_config import Q, Searcher, agent_settings, check_unkept, refusal, run_config, search_settings
from bestofq.recipes.searching import searching_agent
from bestofq.recipes.settings import AgentKind
from bestofq.recipes.worlds import World
from bestofq.rollouts.progress import LiveProgress
from bestofq.rollouts.runner import run_many
from bestofq.rollouts.transitions import records, tabulate
from bestofq.store.configuration import AGENTS, DISCOUNT, OtherConfigurationError, Owned
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary
from bestofq.store.run_names import SEED_RUN as SEED_RUN
from bestofq.store.run_names import cycle_run as cycle_run
from bestofq.store.store import Store


async def best_of_q(
    parts: Parts,
    world: World,
    store: Store,
    out: Path,
    console: Console,
) -> ValueModel:
    """The whole recipe; what an earlier call finished is not done again. The last Q-function lies in `out`."""
    settings = parts.settings
    await collect(parts, world, store, SEED_RUN, "explore", console, repeats=settings.seed_runs)
    values = train(parts, store, [SEED_RUN], out / "q0", console)
    for cycle in range(1, settings.cycles + 1):
        run = cycle_run(cycle)
        await collect(parts, world, store, run, "best-of-q", console, repeats=settings.runs_per_cycle, values=values)
        runs = [SEED_RUN, *map(cycle_run, range(1, cycle + 1))]
        values = train(parts, store, runs, out / f"q{cycle}", console)
    return values


async def collect(
    parts: Parts,
    world: World,
    store: Store,
    run: str,
    kind: AgentKind,
    console: Console,
    *,
    repeats: int,
    values: ValueModel | None = None,
    split: Split = "train",
    limit: int | None = None,
    n: int | None = None,
    name: str | None = None,
    simulator: World | None = None,
) -> list[EpisodeSummary]:
    """`repeats` passes of one agent over the tasks of a split; resumes what was begun.

    The episodes are stored under `name`, none: the kind of agent. A searching agent searches in `simulator`, whose
    pages must be those of `world`; none: in the world itself. InfraError, with what cut one, where every episode was
    cut.
    """
    settings = parts.settings
    searcher: Searcher | None = "mcts" if kind == "mcts" else None
    playing = Playing(kind, name or kind, n)
    provenance = await begin(parts, store, run, split, searcher=searcher, agent=playing, values=values)
    tasks = await world.tasks(split, limit or settings.suite.train_tasks)
    with LiveProgress(f"{run}: {name or kind}" if name != run else run, console=console) as progress:
        async with _agent(parts, simulator or world, kind, values, n) as agent:
            done = await run_many(
                tasks,
                world.make_env,
                replace(agent, name=name or agent.name),
                store=store,
                run=run,
                repeats=repeats,
                concurrency=settings.suite.at_once,
                seed=settings.seed,
                step_limit=settings.suite.steps,
                provenance=provenance,
                judge=world.judge,
                progress=progress,
            )
    if not done and (cut := store.summaries(run=run, agent=name or kind, status="cut")):
        raise InfraError(
            f"no episode of {name or kind} in {run} came to its end: all were cut, one by {cut[-1].reason!r}; "
            "mend that and run the same command again"
        )
    return done


@asynccontextmanager
async def _agent(
    parts: Parts, world: World, kind: AgentKind, values: ValueModel | None, n: int | None
) -> AsyncIterator[Agent]:
    if kind == "mcts":
        async with searching_agent(parts, world, values) as agent:
            yield agent
    else:
        yield parts.agent(kind, values, n=n)


class Playing(NamedTuple):
    """Who plays in a run, the name its episodes are stored under, and its N; none: as the settings say."""

    kind: AgentKind
    name: str
    n: int | None = None


async def begin(
    parts: Parts,
    store: Store,
    run: str,
    split: Split,
    *,
    searcher: Searcher | None = None,
    agent: Playing | None = None,
    values: ValueModel | None = None,
) -> Provenance:
    """Begin a run, or go on with it; DataError when it was begun with other settings, its searches' and the agent's
    own among them, or with another Q-function than `values`."""
    made = current_provenance(prompts=parts.prompts, seed=parts.settings.seed)
    q = {Q: values.checkpoint} if values is not None else {}
    searches: Owned = {searcher: {**search_settings(parts, searcher), **q}} if searcher else {}
    trained = {DISCOUNT: values.discount} if values is not None and values.discount is not None else {}
    ranked = {} if searcher else {**q, **trained}
    own = {**agent_settings(parts.settings, agent.kind, agent.n), **ranked} if agent else {}
    try:
        if agent and own and _plays_unkept(store, run, agent.name):
            check_unkept(parts, run, agent.kind)
        agents: Owned = {agent.name: own} if agent and own else {}
        await store.begin_run(run, run_config(parts, split), made, searches=searches, agents=agents)
    except OtherConfigurationError as error:
        raise refusal(parts, run, error.differences) from None
    return made


def _plays_unkept(store: Store, run: str, agent: str) -> bool:
    """Whether an agent has episodes in a run that does not keep its settings, as those of an older bestofq."""
    config = next((record.config for record in store.runs() if record.name == run), {})
    kept = config.get(AGENTS)
    return (
        not (isinstance(kept, dict) and agent in kept)
        and store.catalogue.count(EpisodeFilter(run=run, agent=agent)) > 0
    )


def train(parts: Parts, store: Store, runs: Sequence[str], out: Path, console: Console) -> ValueModel:
    """Q and V by IQL on the episodes of `runs`; kept in `out`, and read from there when it is there."""
    if (out / CARD).exists():
        return load_value(out, embed=parts.embedder.spec)
    return learn(parts, transitions(parts, store, runs, console), out, console)


def learn(parts: Parts, data: Transitions, out: Path, console: Console, *, iql: IQLConfig | None = None) -> ValueModel:
    """Q and V by IQL on these transitions, `iql` none: as the settings say; kept in `out`."""
    config, spec = iql or parts.settings.iql, parts.embedder.spec
    with _bar("training Q and V", config.steps, console) as advance:
        trained: IQL = train_iql(data, config, on_row=lambda row: advance(row.step))
    export_value(out, trained, embed=spec, train_n=parts.settings.n_candidates)
    console.print(f"Q and V learned from {len(data):,} transitions: {out}")
    return load_value(out, embed=spec)


def transitions(parts: Parts, store: Store, runs: Sequence[str], console: Console) -> Transitions:
    """The training set of the finished episodes of `runs`."""
    episodes = (episode for run in runs for episode in store.episodes(run=run, status="finished"))
    return transitions_of(parts, episodes, store, store.vectors(parts.embedder.spec), console)


def transitions_of(
    parts: Parts, episodes: Iterable[Episode], store: Store, vectors: VectorStore, console: Console
) -> Transitions:
    """The training set of episodes of `store`; vectors are kept in `vectors`. InputError where none succeeded."""
    table = tabulate(records(episodes, parts.texts))
    if not table.reward.any():
        raise InputError(
            "none of the episodes succeeded, so there is nothing to learn a value from: "
            "collect more (`bestofq collect`), or use a stronger model"
        )
    return table.transitions(embedded(parts, table.items, store, vectors, console))


def embedded(parts: Parts, items: Sequence[EmbedItem], store: Store, vectors: VectorStore, console: Console) -> Floats:
    """Vectors [B, D] of items of `store`'s episodes; each distinct one is embedded once, for good in `vectors`."""
    with _bar("embedding", len(items), console) as advance:
        return parts.embedder.embed_all(
            items, vectors, progress=lambda done, _: advance(done), pictures=store.screenshots.load
        )


class _bar:
    """A progress bar whose `advance` takes how many are done."""

    def __init__(self, label: str, total: int, console: Console) -> None:
        self._progress = bar(console)
        self._task = self._progress.add_task(label, total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda done: self._progress.update(self._task, completed=done)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
