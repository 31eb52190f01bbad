"""`python -m experiments COMMAND`, from the repository's root: what makes and repeats the published numbers."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from bestofq.cli.config import load_config
from bestofq.cli.main import exit_with
from bestofq.cli.options import Budget, CommonOptions, Config, Data, DryRun, Set
from bestofq.cli.planning import plan_episodes
from bestofq.cli.shared import limit_of, models_of, one_of
from bestofq.store.location import Location
from experiments.ablation import ablation
from experiments.agent_q.comparison import agent_q
from experiments.best_of_q import planned, run_best_of_q
from experiments.estimating import GROUPS, learned, make, write
from experiments.figures import figures
from experiments.golden import golden
from experiments.noisy_scorers import judged
from experiments.ranking import rank

app = typer.Typer(
    name="python -m experiments",
    help="Make the pocket models, run the published comparisons again, count right actions against an oracle.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (ablation, agent_q, figures, golden, rank):
    app.command()(command)


@app.command()
def pocket(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint.")], config: Config = None, set_: Set = None
) -> None:
    """Make the pocket model from nothing: demonstrations, tokenizer, training."""
    # takes a second that others need not wait
    from experiments.pocket_models.making import PocketConfig, make_pocket_model

    make_pocket_model(load_config(PocketConfig, config, set_ or ()), out)


@app.command("best-of-q")
def best_of_q(
    config: Config = None,
    set_: Set = None,
    out: Annotated[Path, typer.Option(help="Folder of the episodes and of what is learned.")] = Path("runs/experiment"),
    results: Annotated[
        Path | None, typer.Option(help="Folder of the committed results. Default: that of --config.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=2, help="Test tasks. Default: 200, of WebVoyager all.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 3,
    dev_tasks: Annotated[int, typer.Option(min=0, help="Dev tasks played after each training; 0: none.")] = 150,
    data: Data = None,
    budget: Budget = None,
    dry_run: DryRun = False,
) -> None:
    """The full recipe from nothing but the frozen model, then all agents on test tasks. Resumable."""
    models = models_of(CommonOptions(config=config, set_=set_, data=data, budget=budget))
    limit = limit_of(None, models.settings.suite) if tasks is None else tasks
    if dry_run:
        plan_episodes(models, Location.of(out), planned(models.settings, tasks=limit, runs=runs, dev_tasks=dev_tasks))
        return
    folder = results or (config.parent if config else out / "results")
    asyncio.run(run_best_of_q(models, out=out, results=folder, tasks=limit, runs=runs, dev_tasks=dev_tasks))


@app.command()
def estimate(
    group: Annotated[
        str, typer.Argument(help=f"noisy: scorers of known worth; Q-functions: {', '.join(GROUPS)}.")
    ] = "",
) -> None:
    """Is what `bestofq estimate` says what playing measures? Without a group: the results of the Q-functions made."""
    if group == "noisy":
        write("noisy", judged())
    elif group:
        make(GROUPS[one_of("group", group, tuple(GROUPS))])
    else:
        write("result", learned())


if __name__ == "__main__":
    exit_with(app)
