"""Best-of-Q (arXiv 2601.22701, A.2): collect with an exploring agent → train Q and V → exploit → add data → retrain."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bestofq.agents.agent import Agent
from bestofq.core.decision import Episode, Provenance
from bestofq.core.embedding import EmbedItem
from bestofq.core.errors import DataError, InfraError, InputError
from bestofq.core.observation import Split
from bestofq.core.transitions import Floats, Transitions
from bestofq.learning.checkpoint import CARD, load_value
from bestofq.learning.value import ValueModel
from bestofq.models.cached_embedder import VectorStore
from bestofq.recipes.bars import bar
from bestofq.recipes.parts import SHIPPED_FOR, Parts
from bestofq.recipes.provenance import current_provenance
from bestofq.recipes.q_training import Origin, TrainingSet, concerns_episodes, described, is_learned, learn
from bestofq.recipes.run_config import (
    Q,
    Searcher,
    agent_settings,
    check_unkept,
    endpoint_of,
    refusal,
    run_config,
    search_settings,
)
from bestofq.recipes.searching import searching_agent
from bestofq.recipes.settings import AgentKind
from bestofq.recipes.worlds import World
from bestofq.rollouts.progress import LiveProgress
from bestofq.rollouts.runner import run_many
from bestofq.rollouts.transitions import records, tabulate
from bestofq.store.configuration import AGENTS, DISCOUNT, OtherConfigurationError, Owned
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary
from bestofq.store.run_names import SEED_RUN, cycle_run
from bestofq.store.store import Store

EXAMPLE = 120  # characters of a reply that is shown as an example


async def best_of_q(
    parts: Parts,
    world: World,
    store: Store,
    out: Path,
    console: Console,
) -> ValueModel:
    """The whole recipe; what an earlier call finished is not done again. The last Q-function lies in `out`."""
    settings = parts.settings
    check_played(parts, store, out)
    if settings.chat is not None:
        parts.check_embedder(settings.chat.model)
    await collect(parts, world, store, SEED_RUN, "explore", console, repeats=settings.seed_runs)
    values = train_cycle(parts, store, 0, out, console)
    for cycle in range(1, settings.cycles + 1):
        run = cycle_run(cycle)
        await collect(parts, world, store, run, "best-of-q", console, repeats=settings.runs_per_cycle, values=values)
        values = train_cycle(parts, store, cycle, out, console)
    return values


def check_played(parts: Parts, store: Store, out: Path) -> None:
    """DataError where a Q-function in `out` has played a cycle and was trained with other settings than these."""
    for cycle in range(parts.settings.cycles + 1):
        folder = out / f"q{cycle}"
        found = Origin.of(parts, ()).differences(folder) if _has_played(store, folder, cycle) else []
        if settings := [one for one in found if not concerns_episodes(one)]:
            raise DataError(
                f"{folder} holds a Q-function trained with {described(settings)}, and {cycle_run(cycle + 1)} was "
                "played with it: give --store and --out other folders, or learn from the runs by `bestofq train --out` "
                "another folder"
            )


def train_cycle(parts: Parts, store: Store, cycle: int, out: Path, console: Console) -> ValueModel:
    """The Q-function of a cycle, learned from all episodes so far.

    Where another one lies in its place, it is trained again; but one that has played the next cycle stays as it played.
    """
    runs, folder = [SEED_RUN, *map(cycle_run, range(1, cycle + 1))], out / f"q{cycle}"
    found = Origin.of(parts, summaries(store, runs)).differences(folder)
    if found and _has_played(store, folder, cycle):
        console.print(
            f"{folder} holds a Q-function trained with {described(found)}: it stays, as {cycle_run(cycle + 1)} was "
            "played with it; later ones learn from the episodes as they are now"
        )
        return load_value(folder, embed=parts.embedder.spec)
    if found:
        console.print(f"{folder} holds a Q-function trained with {described(found)}: it is trained again")
    return train(parts, store, runs, folder, console, again=bool(found))


def _has_played(store: Store, folder: Path, cycle: int) -> bool:
    """Whether the Q-function of a cycle has begun to play the next one."""
    return (folder / CARD).exists() and store.catalogue.count(EpisodeFilter(run=cycle_run(cycle + 1))) > 0


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

    The episodes are stored under `name`, none: the kind of agent. On training tasks the vectors that it computes are
    stored too. A searching agent searches in `simulator`, whose
    pages must be those of `world`; none: in the world itself. InfraError, with what cut one, where every episode was
    cut. Where half of them or more ended for want of a valid action, the console says so, and what to change.
    """
    settings = parts.settings
    searcher: Searcher | None = "mcts" if kind == "mcts" else None
    playing = Playing(kind, name or kind, n)
    provenance = await begin(parts, store, run, split, searcher=searcher, agent=playing, values=values)
    tasks = await world.tasks(split, limit or settings.suite.train_tasks)
    kept = parts.keeping(kind, store.vectors) if split == "train" else nullcontext()
    with kept, LiveProgress(f"{run}: {name or kind}" if name != run else run, console=console) as progress:
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
                step_limit=parts.step_limit,
                provenance=provenance,
                judge=world.judge,
                progress=progress,
            )
    if not done and (cut := store.summaries(run=run, agent=name or kind, status="cut")):
        raise InfraError(
            f"no episode of {name or kind} in {run} came to its end: all were cut, one by {cut[-1].reason!r}; "
            "mend that and run the same command again"
        )
    ended = [episode for episode in done if episode.replies is not None]
    if ended and 2 * len(ended) >= len(done):
        console.print(_without_action(parts, ended, len(done)), style="yellow", markup=False)
    return done


def _without_action(parts: Parts, ended: Sequence[EpisodeSummary], of: int) -> str:
    """Why these episodes ended: their model's replies were no valid actions."""
    last = ended[-1]
    example = next((reply for reply in last.replies or () if reply.strip()), "")
    taught = SHIPPED_FOR.get(parts.settings.suite.name)
    advice = f"--model {taught}" if taught and taught != parts.settings.model.path else "another --model"
    return (
        f"{len(ended)} of {of} episodes of {last.agent} in {last.run} ended because the model replied no valid action, "
        f"for example {example[:EXAMPLE]!r} ({last.reason}): try {advice}."
    )


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


def train(
    parts: Parts, store: Store, runs: Sequence[str], out: Path, console: Console, *, again: bool = False
) -> ValueModel:
    """Q and V by IQL on the episodes of `runs`, kept in `out`.

    Where they lie there already they are read. DataError where a Q-function of other settings or episodes does;
    `again`: it is replaced.
    """
    learn(lambda: training_set(parts, store, runs, out, console, again=again), parts.settings.iql, out, console)
    return load_value(out, embed=parts.embedder.spec)


def training_set(
    parts: Parts, store: Store, runs: Sequence[str], out: Path, console: Console, *, again: bool = False
) -> TrainingSet | None:
    """What Q and V of `out` learn from; None where they have. DataError as in `train`."""
    origin = Origin.of(parts, summaries(store, runs))
    if is_learned(out, origin, console, again=again):
        return None
    return TrainingSet(origin, transitions(parts, store, runs, console))


def summaries(store: Store, runs: Sequence[str]) -> list[EpisodeSummary]:
    """The finished episodes of `runs`, in the order of `transitions`."""
    return [summary for run in runs for summary in store.summaries(run=run, status="finished")]


def transitions(parts: Parts, store: Store, runs: Sequence[str], console: Console) -> Transitions:
    """The training set of the finished episodes of `runs`. ConfigError where an endpoint proposed in one of them and no
    model is named that embeds."""
    for record in store.runs():
        if record.name in runs and (proposer := endpoint_of(record.config)):
            parts.check_embedder(proposer)
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
