"""Learn Q and V by IQL from stored episodes. Resumable: run the same command again.

With --try each of the settings, and those without, learn from four fifths of the tasks first. The settings that
rank most sibling actions of the other episodes right then learn from all.

Prints the sizes first, then a bar with the time left. Shorter: --set iql.steps=1000. The paper's
network: --set iql.network.hidden=paper.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.estimate import estimate_trained_q
from bestofq.cli.options import CommonOptions, LogTo, Texts, takes
from bestofq.cli.planning import print_training_plan
from bestofq.cli.shared import hosts_of, models_of, open_existing_store, store_of
from bestofq.cli.writing import check_folder
from bestofq.config.models import Models
from bestofq.core.concurrency import run_interruptible
from bestofq.learning.tracking import open_tracker
from bestofq.recipes.estimate import Trials
from bestofq.recipes.q_training import embed_there, select_episodes, train_on_runs
from bestofq.reports.stats import Quantity, tally_by_task
from bestofq.reports.table import Row, Table, columns
from bestofq.rollouts.console import console
from bestofq.store.location import Location


@takes("suite", "model", "config", "set_", "store", "cluster", "dry_run")
def train(
    options: CommonOptions,
    out: Annotated[Path, Option(help="Folder for the Q-function.")],
    run: Annotated[Texts, Option(help="Run to learn from. Repeatable. Default: seed.")] = None,
    episodes: Annotated[
        int | None, Option(help="How many to learn from, pass after pass. Default: all.", min=1)
    ] = None,
    again: Annotated[bool, Option("--again", help="Replace another Q-function in --out.")] = False,
    tries: Annotated[
        Texts, Option("--try", help="Settings to try too: 'iql.discount=0.95 iql.network.scaling=whiten'. Repeatable.")
    ] = None,
    estimate: Annotated[
        bool, Option(help="Say at the end what to expect of it: one more Q-function, of four fifths of the tasks.")
    ] = True,
    log_to: LogTo = None,
) -> None:
    check_folder(out)
    models, runs = models_of(options), run or ["seed"]
    store = store_of(options, models)
    tried = {words: models_of(options, over=words.split()) for words in tries or ()}
    named = {"as given": models, **tried}
    if options.dry_run:
        for each in named.values():
            print_training_plan(each, store, runs, episodes, out)
        return
    if tried:
        models = _choose(named, store, runs, episodes, out)
    with (
        open_existing_store(store) as opened,
        hosts_of(options.cluster, models, store) as hosts,
        open_tracker(log_to, out) as log,
    ):
        if hosts is not None:
            run_interruptible(embed_there(models, hosts, opened, select_episodes(opened, runs, episodes)))
        train_on_runs(models, opened, runs, out, again=again, episodes=episodes, log=log)
    if estimate:
        estimate_trained_q(models, store, runs, episodes, out)


def _choose(
    named: Mapping[str, Models], folder: Location, runs: Sequence[str], episodes: int | None, out: Path
) -> Models:
    """Return the models whose settings rank best; of equals the first."""
    with open_existing_store(folder) as store:
        held_out = Trials(store, select_episodes(store, runs, episodes), out / "trials")
        trials = [held_out.evaluate_trial(name, models) for name, models in named.items()]
        proposer = held_out.proposer()
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
