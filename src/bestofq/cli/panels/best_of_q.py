"""Best-of-Q (arXiv 2601.22701): collect, train, improve, evaluate, ablate."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bestofq.cli.options import DryRun, Given, N, Q, Split, Tasks, console, takes


@takes()
def collect(
    given: Given,
    run: Annotated[str, Option(help="Name of the run.")] = "seed",
    agent: Annotated[str, Option(help="explore, prompting, random, picker, best-of-q, prior, …")] = "explore",
    tasks: Tasks = None,
    repeats: Annotated[int | None, Option(help="Passes over the tasks. Default: seed_runs.", min=1)] = None,
    q: Q = None,
) -> None:
    """Play the training tasks and keep the episodes. Resumable: run the same command again."""
    from bestofq.cli.planning import plan_episodes
    from bestofq.cli.running import play_and_show
    from bestofq.cli.settings import kind_of, models_of, store_of, training_tasks, with_values
    from bestofq.recipes.collect import Play

    kind = kind_of(agent)
    models, values = with_values(models_of(given, *training_tasks(tasks)), q, [kind])
    play = Play(kind, repeats or models.settings.seed_runs, values)
    if given.dry_run:
        plan_episodes(models, store_of(given, models), [(run, play)])
    else:
        play_and_show(models, store_of(given, models), run, play)


@takes("suite", "model", "config", "set_", "store", "dry_run")
def train(
    given: Given,
    out: Annotated[Path, Option(help="Folder for the Q-function.")],
    run: Annotated[list[str] | None, Option(help="Run to learn from. Repeatable. Default: seed.")] = None,
    again: Annotated[bool, Option("--again", help="Replace another Q-function in --out.")] = False,
    tries: Annotated[
        list[str] | None,
        Option("--try", help="Settings to try too: 'iql.discount=0.95 iql.network.scaling=whiten'. Repeatable."),
    ] = None,
) -> None:
    """Learn Q and V by IQL from stored episodes. Resumable: run the same command again.

    With --try each of the settings, and those without, learn from four fifths of the tasks first; what ranks most
    sibling actions of the others' episodes right then learns from all.

    Prints the sizes first, and the time left after the first steps. Shorter: --set iql.steps=1000. The paper's
    network: --set iql.network.hidden=paper. On several devices:
    torchrun --nproc-per-node N -m bestofq.cli.main train …
    """
    from bestofq.cli.choosing import alternatives, chosen
    from bestofq.cli.planning import plan_training
    from bestofq.cli.settings import existing, models_of, store_of
    from bestofq.recipes import best_of_q as recipe
    from bestofq.recipes.q_training import TrainingSet, learn

    models, runs = models_of(given), run or ["seed"]
    folder = store_of(given, models)
    if given.dry_run:
        for one in alternatives(given, tries or ()).values():
            plan_training(one, folder, runs, out)
        return
    if tries:
        models = chosen(given, tries, folder, runs, out)

    def read() -> TrainingSet | None:
        with existing(folder) as opened:
            return recipe.training_set(models, opened, runs, out, console, again=again)

    learn(read, models.settings.iql, out, console)


@takes()
def improve(
    given: Given,
    out: Annotated[Path | None, Option(help="Folder for the Q-functions. Default: q in the store.")] = None,
    tasks: Tasks = None,
) -> None:
    """Run the whole recipe: collect, train, then cycles of play, add the episodes, train again. Resumable.

    Training on several devices: torchrun --nproc-per-node N -m bestofq.cli.main improve …
    """
    import asyncio

    from bestofq.build.context import RunContext, open_suite
    from bestofq.cli.planning import plan_episodes
    from bestofq.cli.settings import models_of, store_of, training_tasks, warned
    from bestofq.learning.distributed import choose_device, process_group
    from bestofq.recipes import best_of_q as recipe
    from bestofq.reports.costs import agent_costs, cost_table
    from bestofq.reports.rows import Selection
    from bestofq.store.store import Store

    models = models_of(given, *training_tasks(tasks))
    folder = store_of(given, models)
    if given.dry_run:
        plan_episodes(models, folder, recipe.plays(models.settings))
        return

    async def work() -> None:
        async with open_suite(models, warned(models)) as opened_suite:
            with Store.open(folder) as opened:
                await recipe.best_of_q(RunContext(models, opened_suite, opened, console), out or folder / "q")
                runs = [name for name, _ in recipe.plays(models.settings)]
                console.print(cost_table(agent_costs(opened, Selection(runs=runs))))

    with process_group(choose_device(models.settings.iql.device)) as group:
        if group.rank == 0:
            asyncio.run(work())
        else:
            recipe.join_training(models.settings, console)


@takes()
def evaluate(
    given: Given,
    agents: Annotated[
        str | None,
        Option(help="Comma-separated. Default: prompting,random,picker,best-of-q,prior as far as they can play."),
    ] = None,
    q: Q = None,
    split: Split = "dev",
    tasks: Tasks = None,
    runs: Annotated[int, Option(min=1, help="Passes over the tasks.")] = 3,
    n: N = None,
    run: Annotated[str, Option(help="Name of the run.")] = "eval",
    out: Annotated[Path | None, Option(help="JSON file for the results.")] = None,
) -> None:
    """Measure agents: success ± standard error, steps for success and cost of each (Tables 2 and 5 to 8). Resumable.

    200 tasks by default; of WebVoyager all.
    """
    from bestofq.cli.evaluating import Evaluation, evaluate_agents
    from bestofq.cli.settings import limit_of, models_of, named_only, store_of

    models = models_of(given, *named_only(tasks))
    options = Evaluation(
        agents=agents, q=q, run=run, split=split, tasks=limit_of(tasks, models.settings.suite), passes=runs, n=n
    )
    evaluate_agents(models, store_of(given, models), options, out, dry_run=given.dry_run)


def ablation(
    file: Annotated[Path, Argument(help="TOML file: what the arms have in common and where they differ.")],
    out: Annotated[Path, Option(help="Folder of episodes and Q-functions; ablations may share it.")] = Path(
        "runs/ablations"
    ),
    results: Annotated[Path | None, Option(help="Folder of the results. Default: the file's own.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Learn and play with settings that differ in one thing, and compare. Resumable."""
    from bestofq.cli.ablation import plan_ablation, run_ablation

    if dry_run:
        plan_ablation(file)
    else:
        run_ablation(file, out, results)
