"""`--dry-run`: what a command would do, from the settings and what is stored. It makes nothing and asks no model."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.table import Table

from bestofq.build.context import chosen_tasks
from bestofq.build.models import Models
from bestofq.cli.options import console
from bestofq.core.observation import Split, Task
from bestofq.core.usage import merge_usage
from bestofq.envs.suites import make_suite
from bestofq.recipes.collect import Play
from bestofq.store.store import Store


def plan_episodes(models: Models, store: Path, plays: Sequence[tuple[str, Play]]) -> None:
    """A row for each agent of each run: its episodes, how many are stored, and what the others may cost by these."""
    table = _table("run", "agent", "split", "tasks", "passes", "stored", "to play", "USD")
    with _stored(store) as opened:
        for run, play in plays:
            tasks = _tasks(models, play.split, play.limit or models.settings.suite.train_tasks)
            keys = {(task.suite, task.id) for task in tasks}
            found = opened.summaries(run=run, agent=play.agent, status="finished") if opened else []
            done = [one for one in found if one.key[:2] in keys and one.key.repeat < play.repeats]
            left = len(tasks) * play.repeats - len(done)
            table.add_row(
                *(run, play.agent, play.split, f"{len(tasks):,}", f"{play.repeats}", f"{len(done):,}", f"{left:,}"),
                _cost(opened, [one.id for one in done], left),
            )
    _print(models, store, table)


def plan_searches(models: Models, store: Path, runs: Sequence[str], split: Split, tasks: int) -> None:
    """A row for each run of searches: its trees, their rollouts, and how many trees are stored."""
    config = models.settings.agent_q.search
    found = _tasks(models, split, tasks * len(runs))
    table = _table("run", "split", "tasks", "rollouts", "K", "stored")
    with _stored(store) as opened:
        for number, run in enumerate(runs):
            part = found[number * tasks : (number + 1) * tasks]
            kept = sum(opened.trees.load(run, task.suite, task.id) is not None for task in part) if opened else 0
            sizes = (len(part), config.iterations, config.candidates, kept)
            table.add_row(run, split, *(f"{size:,}" for size in sizes))
    _print(models, store, table)


def plan_training(models: Models, store: Path, runs: Sequence[str], out: Path) -> None:
    """How many episodes teach, and for how many steps. DataError where there is no store."""
    with Store.open(store, read_only=True) as opened:
        stored = [one for run in runs for one in opened.summaries(run=run, status="finished")]
        found = [one for one in stored if one.decided and one.steps]
    iql = models.settings.iql
    won, steps = sum(one.success for one in found), sum(one.steps for one in found)
    console.print(
        f"IQL would learn from {len(found):,} episodes of {', '.join(runs)} in {store}, {won:,} of them successes, "
        f"with {steps:,} transitions: {iql.steps:,} steps of {iql.batch_size}, discount {iql.discount:g}, expectile "
        f"{iql.expectile:g}; into {out}"
    )


def _table(*headings: str) -> Table:
    table = Table(title="--dry-run: nothing is played", title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("run", "agent", "split") else "right", overflow="fold")
    return table


def _print(models: Models, store: Path, table: Table) -> None:
    settings = models.settings
    who = settings.chat.model if settings.chat else settings.model.path
    console.print(f"{settings.suite.name}, proposals by {who}, kept in {store}", highlight=False, markup=False)
    console.print(table)


def _tasks(models: Models, split: Split, limit: int) -> Sequence[Task]:
    suite = models.settings.suite
    return asyncio.run(chosen_tasks(make_suite(suite), suite.only, split, limit))


@contextmanager
def _stored(store: Path) -> Iterator[Store | None]:
    if not (store / "store.sqlite").exists():
        yield None
        return
    with Store.open(store, read_only=True) as opened:
        yield opened


def _cost(store: Store | None, episodes: Sequence[str], left: int) -> str:
    """What `left` episodes cost at the mean price of those stored; a dash where that is unknown."""
    some = episodes[:50]
    usage = [one for name in some if store for step in store.episode(name).steps for one in step.decision.usage]
    prices = [one.usd for one in merge_usage(usage) if one.tokens_in]
    known = [price for price in prices if price is not None]
    return f"{sum(known) / len(some) * left:.2f}" if known and len(known) == len(prices) else "–"
