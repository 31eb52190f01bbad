"""Tune the model that searched: by DPO on pairs, or without any by RFT on its successful rollouts. Resumable.

On several devices by a launcher: accelerate launch -m bestofq.cli.main tune …
"""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, LogTo, Place, Places, SearchRun, takes
from bestofq.cli.shared import models_of, store_of
from bestofq.cli.writing import check_folder
from bestofq.core.errors import InputError
from bestofq.core.words import count_of
from bestofq.learning.distributed import is_first_process
from bestofq.learning.tracking import open_tracker
from bestofq.recipes import policy_training as recipe
from bestofq.rollouts.console import console
from bestofq.store.pairs import read_pairs
from bestofq.store.store import Store


@takes("suite", "model", "config", "set_", "store", "dry_run")
def tune(
    options: CommonOptions,
    out: Annotated[Path, Option(help="Folder for the tuned model.")],
    pairs: Annotated[Place, Option(help="Parquet file of `bestofq pairs`: DPO.")] = None,
    replay: Annotated[
        Places, Option(help="Pairs that earlier rounds' models drew: trained on too. Repeatable.")
    ] = None,
    run: SearchRun = "search",
    log_to: LogTo = None,
) -> None:
    console.quiet = not is_first_process()
    check_folder(out)
    models = models_of(options)
    if replay and pairs is None:
        raise InputError("--replay adds to the pairs that this model drew: give these by --pairs")
    if pairs is not None:
        source = recipe.source(models)
        earlier = [pair for file in replay or () for pair in read_pairs(file, source=source, replayed=True)]
        all_pairs = [*earlier, *read_pairs(pairs, source=source)]
        plan = f"DPO would learn from {count_of(len(all_pairs), 'pair')}, {len(earlier):,} of earlier rounds: {out}"
        train = partial(recipe.tune, models, all_pairs, out)
    else:
        with Store.open(store_of(options, models), read_only=True) as opened:
            trees = recipe.searched_trees(models, opened, run)
        won = sum(1 for _ in recipe.successful_turns(models, trees)) if options.dry_run else 0
        plan = f"RFT would learn from {count_of(won, 'successful rollout')} of {count_of(len(trees), 'tree')}: {out}"
        train = partial(recipe.reinforce, models, trees, out)
    if options.dry_run:
        console.print(plan)
        return
    with open_tracker(log_to) as log:
        folder = train(log=log)
    console.print(f"the tuned model: {folder}")
