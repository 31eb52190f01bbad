"""Write the preference pairs of searched trees, with the likelihoods their actions were drawn with."""

from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, SearchRun, takes
from bestofq.cli.shared import models_of, store_of
from bestofq.cli.writing import check_out
from bestofq.core.words import count_of
from bestofq.recipes import policy_training as recipe
from bestofq.rollouts.console import console
from bestofq.store.pairs import write_pairs
from bestofq.store.store import Store


@takes("suite", "model", "config", "set_", "store")
def pairs(
    options: CommonOptions,
    out: Annotated[Path, Option(help="The Parquet file.")],
    run: SearchRun = "search",
    trajectories: Annotated[
        bool, Option("--trajectories", help="Whole successes against failures (Eq. 6), not single actions.")
    ] = False,
) -> None:
    check_out(out)
    models = models_of(options)
    with Store.open(store_of(options, models), read_only=True) as opened:
        trees = recipe.searched_trees(models, opened, run)
    found = list((recipe.trajectory_pairs if trajectories else recipe.step_pairs)(models, trees))
    recipe.need_pairs(found, len(trees))
    write_pairs(out, found, recipe.source(models), decode=models.tokens.tokenizer.decode)
    tasks = count_of(len({pair.task for pair in found}), "task")
    console.print(f"{count_of(len(found), 'pair')} of {tasks} from {count_of(len(trees), 'tree')}: {out}")
