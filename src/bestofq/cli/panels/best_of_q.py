"""Best-of-Q (arXiv 2601.22701): collect, train, improve, evaluate."""

from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import (
    CommonOptions,
    Evaluation,
    LogTo,
    Place,
    Q,
    Tasks,
    Texts,
    console,
    takes,
)
from bestofq.core.concurrency import run_interruptible


@takes()
def collect(
    given: CommonOptions,
    run: Annotated[str, Option(help="Name of the run.")] = "seed",
    agent: Annotated[str, Option(help="explore, prompting, random, picker, best-of-q, prior, …")] = "explore",
    tasks: Tasks = None,
    repeats: Annotated[int | None, Option(help="Passes over the tasks. Default: seed_runs.", min=1)] = None,
    q: Q = None,
) -> None:
    """Play the training tasks and keep the episodes. Resumable: run the same command again."""
    from bestofq.cli.planning import plan_episodes
    from bestofq.cli.playing import play_and_show
    from bestofq.cli.settings import kind_of, models_of, store_of, training_tasks, with_values
    from bestofq.recipes.collect import collect as play_and_keep
    from bestofq.recipes.players import Play
    from bestofq.reports.rows import Selection

    kind = kind_of(agent)
    models, values = with_values(models_of(given, *training_tasks(tasks)), q, [kind])
    folder, play = store_of(given, models), Play(kind, repeats or models.settings.seed_runs, values)
    if given.dry_run:
        plan_episodes(models, folder, [(run, play)])
    else:
        played = Selection(runs=[run], agents=[play.agent])
        play_and_show(models, given, lambda context: play_and_keep(context, run, play), played)


@takes("suite", "model", "config", "set_", "store", "cluster", "dry_run")
def train(
    given: CommonOptions,
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
    """Learn Q and V by IQL from stored episodes. Resumable: run the same command again.

    With --try each of the settings, and those without, learn from four fifths of the tasks first; what ranks most
    sibling actions of the others' episodes right then learns from all.

    Prints the sizes first, and the time left after the first steps. Shorter: --set iql.steps=1000. The paper's
    network: --set iql.network.hidden=paper. On several devices:
    torchrun --nproc-per-node N -m bestofq.cli.main train …
    """
    from bestofq.cli.choosing import alternatives, chosen
    from bestofq.cli.estimating import estimate_trained_q
    from bestofq.cli.planning import print_training_plan
    from bestofq.cli.settings import hosts_of, models_of, open_existing_store, store_of
    from bestofq.cli.writing import check_folder
    from bestofq.learning.tracking import open_tracker
    from bestofq.recipes import best_of_q as recipe
    from bestofq.recipes.collect import select_episodes
    from bestofq.recipes.embedding import embed_there
    from bestofq.recipes.q_training import Lesson, learn

    check_folder(out)
    models, runs = models_of(given), run or ["seed"]
    folder = store_of(given, models)
    if given.dry_run:
        for one in alternatives(given, tries or ()).values():
            print_training_plan(one, folder, runs, episodes, out)
        return
    if tries:
        models = chosen(given, tries, folder, runs, episodes, out)

    def read() -> Lesson | None:
        with open_existing_store(folder) as opened, hosts_of(given.cluster, models, folder) as hosts:
            if hosts is not None:
                run_interruptible(embed_there(models, hosts, opened, select_episodes(opened, runs, episodes), console))
            return recipe.training_set(models, opened, runs, out, console, again=again, episodes=episodes)

    with open_tracker(log_to, out) as log:
        learn(read, models.settings.iql, out, console, log)
    if estimate:
        estimate_trained_q(models, folder, runs, episodes, out)


@takes("suite", "model", "config", "set_", "store")
def estimate(
    given: CommonOptions,
    q: Annotated[Place, Option(help="Folder of the Q-function. Default: one as the settings say.")] = None,
    run: Annotated[Texts, Option(help="Run whose episodes tell. Repeatable. Default: seed.")] = None,
    folds: Annotated[int, Option(min=1, max=5, help="Fifths of the tasks to hold out, each with a training.")] = 5,
) -> None:
    """Say whether a Q-function is worth deploying, from logged episodes alone: nobody plays.

    Q ranks episodes of tasks that it did not learn from. Where it learned from all of them, and without --q,
    Q-functions of four fifths of the tasks each rank the others. The episodes must be of an agent that explores
    (bestofq collect). What it finds is kept beside the Q-function.
    """
    from bestofq.cli.estimating import estimate_and_show
    from bestofq.cli.settings import models_of, store_of

    models = models_of(given)
    estimate_and_show(models, store_of(given, models), run or ["seed"], q, folds)


@takes()
def improve(
    given: CommonOptions,
    out: Annotated[Place, Option(help="Folder for the Q-functions. Default: q in the store.")] = None,
    tasks: Tasks = None,
) -> None:
    """Run the whole recipe: collect, train, then cycles of play, add the episodes, train again. Resumable.

    Training on several devices: torchrun --nproc-per-node N -m bestofq.cli.main improve …
    """
    from bestofq.cli.planning import plan_episodes
    from bestofq.cli.playing import play_and_show
    from bestofq.cli.settings import models_of, store_of, training_tasks
    from bestofq.cli.writing import check_folder
    from bestofq.learning.distributed import choose_device, process_group
    from bestofq.recipes import best_of_q as recipe
    from bestofq.reports.rows import Selection

    check_folder(out)
    models = models_of(given, *training_tasks(tasks))
    folder, plays = store_of(given, models), recipe.plays(models.settings)
    if given.dry_run:
        plan_episodes(models, folder, plays)
        return
    with process_group(choose_device(models.settings.iql.device)) as group:
        if group.rank == 0:
            played = Selection(runs=[run for run, _ in plays])
            play_and_show(models, given, lambda context: recipe.best_of_q(context, out or folder / "q"), played)
        else:
            recipe.join_workers(models.settings, console)


@takes()
def evaluate(wanted: Evaluation) -> None:
    """Measure agents: success ± standard error, steps for success and cost of each (Tables 2 and 5 to 8). Resumable.

    200 tasks by default; of WebVoyager all.
    """
    from bestofq.cli.playing import evaluate_agents

    evaluate_agents(wanted)
