"""Best-of-Q (arXiv 2601.22701, A.2): collect with an exploring agent → train Q and V → exploit → add data → retrain."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bestofq.config.context import RunContext
from bestofq.config.models import Models, check_embedder
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import DataError
from bestofq.learning.checkpoint import CARD, load_value
from bestofq.learning.value import ValueModel
from bestofq.recipes.collect import collect
from bestofq.recipes.embedding import embed_there
from bestofq.recipes.players import Play
from bestofq.recipes.q_training import (
    Lesson,
    TrainingIdentity,
    describe_differences,
    learn,
    lesson,
    transitions,
)
from bestofq.recipes.training_episodes import select_episodes
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import SEED_RUN, cycle_run
from bestofq.store.store import Store


def plays(settings: BestOfQSettings) -> list[tuple[str, Play]]:
    """The runs of the recipe in order, with what is played in each (A.2)."""
    cycles = range(1, settings.cycles + 1)
    again = Play("best-of-q", settings.runs_per_cycle)
    return [(SEED_RUN, Play("explore", settings.seed_runs)), *((cycle_run(cycle), again) for cycle in cycles)]


async def best_of_q(context: RunContext, out: Path) -> ValueModel:
    """The whole recipe; what an earlier call finished is not done again. The last Q-function lies in `out`."""
    settings = context.settings
    check_player(context, out)
    check_embedder(settings)
    values: ValueModel | None = None
    for cycle, (run, play) in enumerate(plays(settings)):
        await collect(context, run, replace(play, values=values))
        if context.hosts is not None:
            learned = select_episodes(context.store, [name for name, _ in plays(settings)[: cycle + 1]])
            await embed_there(context.models, context.hosts, context.store, learned, context.console)
        values = train_cycle(context, cycle, out)
    assert values is not None
    return values


def check_player(context: RunContext, out: Path) -> None:
    """DataError where a Q-function in `out` has played a cycle and was trained with other settings than these."""
    for cycle in range(context.settings.cycles + 1):
        folder = out / f"q{cycle}"
        played = _has_played(context.store, folder, cycle)
        if played and (found := TrainingIdentity.of(context.models, ()).differences(folder, episodes=False)):
            raise DataError(
                f"{folder} holds a Q-function trained with {describe_differences(found)}, and "
                f"{cycle_run(cycle + 1)} was played with it: give --store "
                "and --out other folders, or learn from the runs by `bestofq train --out` another folder"
            )


def train_cycle(context: RunContext, cycle: int, out: Path) -> ValueModel:
    """The Q-function of a cycle, from all episodes so far; another is replaced unless it played the next cycle."""
    models, store, console = context.models, context.store, context.console
    runs, folder = [SEED_RUN, *map(cycle_run, range(1, cycle + 1))], out / f"q{cycle}"
    found = TrainingIdentity.of(models, select_episodes(store, runs)).differences(folder)
    stays = bool(found) and _has_played(store, folder, cycle)
    if found:
        played = f"it stays, as {cycle_run(cycle + 1)} was played with it"
        fate = f"{played}; later ones learn from the episodes as they are now" if stays else "it is trained again"
        console.print(f"{folder} holds a Q-function trained with {describe_differences(found)}: {fate}")
    if not stays:
        return train(models, store, runs, folder, console, again=bool(found))
    learn(lambda: None, models.settings.iql, folder, console)  # for the other processes of torchrun
    return load_value(folder, embed=models.embedder.spec)


def join_workers(settings: BestOfQSettings, console: Console) -> None:
    """What the other processes of torchrun do: they learn each Q-function of the recipe along with the first one."""
    for cycle in range(settings.cycles + 1):
        learn(lambda: None, settings.iql, Path(f"q{cycle}"), console)


def _has_played(store: Store, folder: Path, cycle: int) -> bool:
    """Whether the Q-function of a cycle has begun to play the next one."""
    return (folder / CARD).exists() and store.catalogue.count(EpisodeFilter(run=cycle_run(cycle + 1))) > 0


def train(
    models: Models, store: Store, runs: Sequence[str], out: Path, console: Console, *, again: bool = False
) -> ValueModel:
    """Q and V by IQL on `runs`, or as they lie in `out`. DataError where others do, unless `again` replaces them."""
    learn(lambda: training_set(models, store, runs, out, console, again=again), models.settings.iql, out, console)
    return load_value(out, embed=models.embedder.spec)


def training_set(
    models: Models,
    store: Store,
    runs: Sequence[str],
    out: Path,
    console: Console,
    *,
    again: bool = False,
    episodes: int | None = None,
) -> Lesson | None:
    """What Q and V of `out` learn from; None where they have. Warns of a suite's dev or test tasks, and of runs with
    another N than the settings'. DataError as in `train` and `select_episodes`."""
    learned, n = select_episodes(store, runs, episodes), models.settings.n_candidates
    for record in (one for one in store.runs() if one.name in runs):
        if (asked := record.config.get("n_candidates", n)) != n:
            console.print(
                f"{record.name} was played with n_candidates={asked}, and the Q-function will be taken for one of "
                f"n_candidates={n}: add --set n_candidates={asked}",
                style="yellow",
                markup=False,
            )
        split = record.config.get("split") if "suite" in record.config else None  # imported ones have no suite
        if split in ("dev", "test"):
            console.print(
                f"{record.name} was played on {split} tasks, and Q learns from them: its success on these tells "
                "nothing of other tasks",
                style="yellow",
                markup=False,
            )
    origin = TrainingIdentity.of(models, learned)
    return lesson(origin, lambda: transitions(models, store, learned, console), out, console, again=again)
