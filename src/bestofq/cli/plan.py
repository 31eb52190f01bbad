"""`--dry-run`: what a command would do, from the settings and what is stored. It makes nothing and asks no model."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.table import Table

from bestofq.cli import forecast
from bestofq.cli.findings import Finding, show_findings
from bestofq.cli.options import console
from bestofq.cli.preflight import preflight, tunable
from bestofq.config.agents import check_agent, reads_q
from bestofq.config.context import chosen_tasks, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import SetupError
from bestofq.core.observation import Split, Task
from bestofq.envs.suites import make_suite
from bestofq.recipes.players import Play
from bestofq.recipes.training_episodes import select_episodes
from bestofq.store.location import Location
from bestofq.store.store import Store

SOME = 50  # stored episodes that tell what the others will use


def plan_episodes(models: Models, store: Location, plays: Sequence[tuple[str, Play]]) -> None:
    """A row for each agent of each run: its episodes, how many are stored, and what the others may use and take; then
    whether all is there that they need, as far as it can be told. SetupError where something is missing, ConfigError as
    `check_agent`."""
    for _, play in plays:
        check_agent(play.kind, models)
    settings = models.settings
    suite, limit = make_suite(settings.suite), step_limit_of(settings)
    rows: list[tuple[str, ...]] = []
    wanted: dict[str, Task] = {}
    uses: list[tuple[int, forecast.Use]] = []
    guessed = False
    with _open_if_there(store) as opened:
        for run, play in plays:
            tasks = _tasks(models, play.split, play.limit or settings.suite.train_tasks)
            wanted |= {task.id: task for task in tasks}
            keys = {(task.suite, task.id) for task in tasks}
            found = opened.summaries(run=run, agent=play.agent, status="finished") if opened else []
            done = [one for one in found if one.key[:2] in keys and one.key.repeat < play.repeats]
            left = len(tasks) * play.repeats - len(done)
            some = done[:SOME]
            if opened and some:
                seconds = sum(one.seconds or 0.0 for one in some) / len(some)
                use: forecast.Use | None = forecast.measure_use([opened.episode(one.id) for one in some], seconds)
            else:
                use = forecast.assume_use(settings, play.kind, limit, judged=suite.needs_judge, n=play.n)
                guessed |= use is not None
            if use is not None:
                uses.append((left, use))
            sizes = (f"{len(tasks):,}×{play.repeats}", f"{len(done):,}", f"{left:,}")
            rows.append((run, play.agent, play.split, *sizes, *_cost(settings, [(left, use)] if use else [])))
    if len(uses) > 1:
        rows.append(("all", "", "", "", "", f"{sum(left for left, _ in uses):,}", *_cost(settings, uses)))
    sizes_of = ("tasks", "stored", "to play", "M in", "M out", "USD", "hours")
    _show(models, store, ("run", "agent", "split", *sizes_of), rows)
    if uses:
        console.print(
            f"Millions of tokens; hours of play, {_at_once(settings)} episodes at once: learning comes on top.",
            highlight=False,
        )
    if guessed:
        console.print(forecast.ASSUMED, highlight=False)
    learns = any(play.split == "train" for _, play in plays)
    embeds = any(reads_q(settings, play.kind) for _, play in plays)
    room = sum(left * use.steps * forecast.SCREENSHOT for left, use in uses) if settings.suite.screenshots else 0.0
    checks = preflight(models, suite, [*wanted.values()], store, stored=room, learns=learns, embeds=embeds)
    _require_found(asyncio.run(checks))


def plan_searches(models: Models, store: Location, runs: Sequence[str], split: Split, tasks: int) -> None:
    """A row for each run of searches: its trees, their rollouts, how many trees are stored, and what the others may use
    and take; then whether all is there that they need. SetupError where something is missing."""
    settings, config = models.settings, models.settings.agent_q.search
    suite, found = make_suite(settings.suite), _tasks(models, split, tasks * len(runs))
    parts = {run: found[number * tasks : (number + 1) * tasks] for number, run in enumerate(runs)}
    with _open_if_there(store) as opened:
        trees = {
            run: [tree for task in part if opened and (tree := opened.trees.load(run, task.suite, task.id))]
            for run, part in parts.items()
        }
    known = [tree for some in trees.values() for tree in some]
    use = forecast.measured_trees(known, config.iterations) or forecast.assumed_tree(settings, step_limit_of(settings))
    rows, wanted = [], 0.0
    for run, part in parts.items():
        left = len(part) - len(trees[run])
        sizes = (len(part), config.iterations, config.candidates, len(trees[run]))
        rows.append((run, split, *(f"{size:,}" for size in sizes), *_cost(settings, [(left, use)] if use else [])))
        wanted += left * config.iterations * config.candidates * forecast.TREE
    sizes_of = ("tasks", "rollouts", "K", "stored", "M in", "M out", "USD", "hours")
    _show(models, store, ("run", "split", *sizes_of), rows)
    if settings.chat is None:
        return
    console.print(f"By the {len(known):,} trees stored." if known else forecast.ASSUMED_TREE, highlight=False)
    checks = preflight(models, suite, found, store, stored=wanted, learns=False, embeds=False)
    _require_found([*asyncio.run(checks), *asyncio.run(tunable(models, store))])


def _require_found(looked: Sequence[Finding]) -> None:
    if looked and (missing := show_findings(looked, "Before the first call")):
        raise SetupError(f"{len(missing)} of the things that this needs are missing: the table says how to fix each")


def print_training_plan(models: Models, store: Location, runs: Sequence[str], episodes: int | None, out: Path) -> None:
    """How many episodes teach, and for how many steps. DataError where there is no store, or too few in it."""
    with Store.open(store, read_only=True) as opened:
        found = [one for one in select_episodes(opened, runs, episodes) if one.decided and one.steps]
    iql = models.settings.iql
    won, steps = sum(one.success for one in found), sum(one.steps for one in found)
    console.print(
        f"IQL would learn from {len(found):,} episodes of {', '.join(runs)} in {store}, {won:,} of them successes, "
        f"with {steps:,} transitions: {iql.steps:,} steps of {iql.batch_size}, discount {iql.discount:g}, expectile "
        f"{iql.expectile:g}; into {out}"
    )


def _show(models: Models, store: Location, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title="--dry-run: nothing is played", title_justify="left", padding=(0, 0, 0, 1))
    for heading in headings:
        word = heading in ("run", "agent", "split")
        table.add_column(heading, justify="left" if word else "right", overflow="fold", no_wrap=word)
    for row in rows:
        table.add_row(*row)
    settings = models.settings
    chat = settings.endpoint_of("chat")
    who = chat.model if chat else settings.model.path
    console.print(f"{settings.suite.name}, proposals by {who}, kept in {store}", highlight=False, markup=False)
    console.print(table)


def _tasks(models: Models, split: Split, limit: int) -> Sequence[Task]:
    suite = models.settings.suite
    return asyncio.run(chosen_tasks(make_suite(suite), suite.only, split, limit))


def _open_if_there(store: Location) -> AbstractContextManager[Store | None]:
    return Store.open(store, read_only=True) if store.exists else nullcontext()


def _cost(settings: BestOfQSettings, uses: Sequence[tuple[int, forecast.Use]]) -> tuple[str, str, str, str]:
    """Millions of tokens in and out, USD (≥: a price is unknown) and hours of so many episodes each; –: not known."""
    if not uses:
        return ("–",) * 4
    read, written = (sum(left * use.tokens[way] for left, use in uses) for way in (0, 1))
    usd, priced = sum(left * use.usd for left, use in uses), all(use.priced for _, use in uses)
    hours = sum(left * use.seconds for left, use in uses) / _at_once(settings) / 3600
    shown = f"{usd:,.0f}" if usd > 100 else f"{usd:.2g}"
    dollars = shown if priced else f"≥{shown}" if usd else "–"
    millions = [f"{tokens / 1e6:,.{0 if tokens > 1e8 else 1}f}" for tokens in (read, written)]
    return millions[0], millions[1], dollars, f"{hours:,.1f}"


def _at_once(settings: BestOfQSettings) -> int:
    """Episodes that get on together."""
    chat = settings.endpoint_of("chat")
    return min(settings.suite.at_once, chat.concurrency if chat else settings.suite.at_once)
