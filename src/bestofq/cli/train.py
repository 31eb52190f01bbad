"""Learn what ranks candidates from stored episodes. Resumable: run the same command again.

By default the outcomes of actions are remembered, which takes seconds. With --set value=network, or any setting of
iql, Q and V are trained by IQL (Best-of-Q, 3.2).

Prints the sizes first, then a bar with the time left. Shorter: --set iql.steps=1000. The paper's
network: --set iql.network.hidden=paper.
"""

from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.estimate import estimate_trained_q
from bestofq.cli.options import CommonOptions, LogTo, Texts, takes
from bestofq.cli.planning import print_training_plan
from bestofq.cli.shared import models_of, open_existing_store, store_of
from bestofq.cli.writing import check_folder
from bestofq.learning.tracking import open_tracker
from bestofq.recipes.q_training import train_on_runs


@takes("suite", "model", "config", "set_", "store", "dry_run")
def train(
    options: CommonOptions,
    out: Annotated[Path, Option(help="Folder for the Q-function.")],
    run: Annotated[Texts, Option(help="Run to learn from. Repeatable. Default: seed.")] = None,
    episodes: Annotated[
        int | None, Option(help="How many to learn from, pass after pass. Default: all.", min=1)
    ] = None,
    again: Annotated[bool, Option("--again", help="Replace another Q-function in --out.")] = False,
    estimate: Annotated[
        bool, Option(help="Say at the end what to expect of it: one more Q-function, of four fifths of the tasks.")
    ] = True,
    log_to: LogTo = None,
) -> None:
    check_folder(out)
    models, runs = models_of(options), run or ["seed"]
    store = store_of(options, models)
    if options.dry_run:
        print_training_plan(models, store, runs, episodes, out)
        return
    with open_existing_store(store) as opened, open_tracker(log_to) as log:
        train_on_runs(models, opened, runs, out, again=again, episodes=episodes, log=log)
    if estimate:
        estimate_trained_q(models, store, runs, episodes, out)
