"""Play the training tasks and keep the episodes. Resumable: run the same command again."""

from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, Q, Tasks, takes
from bestofq.cli.planning import plan_episodes
from bestofq.cli.shared import kind_of, models_of, play_and_show, store_of, training_tasks, with_values
from bestofq.recipes import collect as recipe
from bestofq.recipes.collect import Play
from bestofq.reports.rows import Selection


@takes()
def collect(
    options: CommonOptions,
    run: Annotated[str, Option(help="Name of the run.")] = "seed",
    agent: Annotated[str, Option(help="explore, prompting, random, picker, best-of-q, prior, …")] = "explore",
    tasks: Tasks = None,
    repeats: Annotated[int | None, Option(help="Passes over the tasks. Default: seed_runs.", min=1)] = None,
    q: Q = None,
) -> None:
    kind = kind_of(agent)
    models, values = with_values(models_of(options, *training_tasks(tasks)), q, [kind])
    store, play = store_of(options, models), Play(kind, repeats or models.settings.seed_runs, values)
    if options.dry_run:
        plan_episodes(models, store, [(run, play)])
    else:
        played = Selection(runs=[run], agents=[play.agent])
        play_and_show(models, store, lambda suite, opened: recipe.collect(models, suite, opened, run, play), played)
