"""Best-of-Q (arXiv 2601.22701, A.2): collect with an exploring agent, train Q and V, exploit, add data, retrain."""

from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from bestofq.agents.scorers.learned import Values
from bestofq.config.context import OpenSuite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.identity import DONE, is_done, q_identity, set_begun
from bestofq.recipes.q_training import load_q, select_episodes, train_q
from bestofq.store.records import SEED_RUN, cycle_run
from bestofq.store.store import Store


def plays(settings: BestOfQSettings) -> list[tuple[str, Play]]:
    """Return the runs of the recipe in order, with what is played in each (A.2)."""
    again = Play("best-of-q", settings.runs_per_cycle)
    cycles = [(cycle_run(cycle), again) for cycle in range(1, settings.cycles + 1)]
    return [(SEED_RUN, Play("explore", settings.seed_runs)), *cycles]


async def best_of_q(models: Models, suite: OpenSuite, store: Store, out: Path) -> Values:
    """Return the last Q-function; those of all cycles are in `out`.

    The same call continues, also with more cycles. Raise DataError if `out` was begun with other settings.
    """
    identity = recipe_identity(models)
    is_done(out, identity, advice="give --store and --out other folders")
    runs: list[str] = []
    q: Values | None = None
    for cycle, (run, play) in enumerate(plays(models.settings)):
        folder = out / f"q{cycle}"
        runs.append(run)
        if (folder / DONE).exists():
            q = load_q(folder, models)
            continue
        await collect(models, suite, store, run, replace(play, values=q))
        set_begun(out, identity)
        q = train_q(folder, models, store, select_episodes(store, runs))
    assert q is not None
    return q


def recipe_identity(models: Models) -> dict[str, JsonValue]:
    """Return what all Q-functions of the recipe depend on. Each run also keeps its own settings."""
    settings = models.settings
    return {
        **q_identity(models),
        "suite": {**settings.suite.selection(), "train_tasks": settings.suite.train_tasks},
        "seed_runs": settings.seed_runs,
        "runs_per_cycle": settings.runs_per_cycle,
    }
