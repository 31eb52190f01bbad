"""Run the whole recipe: collect, train, then cycles of play, add the episodes, train again. Resumable."""

from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, Place, Tasks, takes
from bestofq.cli.planning import plan_episodes
from bestofq.cli.shared import models_of, play_and_show, store_of, training_tasks
from bestofq.cli.writing import check_folder
from bestofq.recipes import best_of_q as recipe
from bestofq.reports.rows import Selection


@takes()
def improve(
    options: CommonOptions,
    out: Annotated[Place, Option(help="Folder for the Q-functions. Default: q in the store.")] = None,
    tasks: Tasks = None,
) -> None:
    models = models_of(options, *training_tasks(tasks))
    store, plays = store_of(options, models), recipe.plays(models.settings)
    folder, played = out or store / "q", Selection(runs=[run for run, _ in plays])
    check_folder(folder)
    if options.dry_run:
        plan_episodes(models, store, plays)
        return
    play_and_show(models, store, lambda suite, opened: recipe.best_of_q(models, suite, opened, folder), played)
