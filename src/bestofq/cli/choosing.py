"""`train --try`: which settings rank best, shown and taken."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bestofq.cli.options import CommonOptions, console
from bestofq.cli.settings import models_of, open_existing_store
from bestofq.config.models import Models
from bestofq.core.errors import ConfigError
from bestofq.recipes.choosing import Trials
from bestofq.recipes.collect import select_episodes
from bestofq.reports.stats import Quantity, tally_by_task
from bestofq.reports.table import Row, Table, columns
from bestofq.store.location import Location


def alternatives(given: CommonOptions, tries: Sequence[str]) -> dict[str, Models]:
    """Those of the settings as given, and with each of `tries` on top of them, by name."""
    changed = {one: models_of(replace(given, set_=[*(given.set_ or ()), *one.split()])) for one in tries}
    return {"as given": models_of(given), **changed}


def chosen(
    given: CommonOptions, tries: Sequence[str], folder: Location, runs: Sequence[str], episodes: int | None, out: Path
) -> Models:
    """Those of the settings that rank best; of equals the first, as given before others. ConfigError under torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("--try compares settings in one process: leave torchrun out, or set what it chose")
    named = alternatives(given, tries)
    with open_existing_store(folder) as store:
        on = Trials(store, select_episodes(store, runs, episodes), out / "trials", console)
        trials = [on.evaluate_trial(name, models) for name, models in named.items()]
        proposer = on.proposer()
    best = max(trials, key=lambda trial: trial.share)
    trials += [proposer] if proposer else []
    rights = [Quantity(tally_by_task(trial.right)) for trial in trials]
    gains = [None, *(right.minus(rights[0]) for right in rights[1:])]
    rows = []
    for trial, right, gain in zip(trials, rights, gains, strict=True):
        pairs = round(sum(pairs for _, _, pairs in trial.right))
        rows.append(Row(cells=(trial.settings, right.measure, gain, pairs, len(trial.right))))
    table = Table(
        name="trials",
        title="Settings tried on held-out episodes",
        columns=columns("settings", "ranked right %", "difference %", "pairs", "tasks", signed=["difference"]),
        rows=tuple(rows),
    )
    console.print(table)
    console.print(f"Chosen: {best.settings}. No oracle was asked and nothing was played.", highlight=False)
    if proposer and best.share <= proposer.share:
        console.print("[yellow]Q ranks no better than the proposer's likelihood: expect nothing of it there.[/]")
    return named[best.settings]
