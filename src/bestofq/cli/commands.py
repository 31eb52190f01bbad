"""The commands: one per recipe."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from rich.console import Console
from rich.table import Table

from bestofq.cli.agent_q import agent_q, pairs, search, tune
from bestofq.cli.choices import (
    RUNS,
    SUITE_NAMES,
    BaseUrl,
    Config,
    Data,
    Folder,
    Model,
    Q,
    Set,
    kind_of,
    limit_of,
    parts_of,
    split_of,
    with_values,
)
from bestofq.cli.config import load_config
from bestofq.cli.demo import run_demo
from bestofq.cli.demo_agent_q import SETTINGS as AGENT_Q_SETTINGS
from bestofq.cli.demo_agent_q import run_demo_agent_q
from bestofq.cli.doctor import doctor as examine
from bestofq.cli.embedding import embed
from bestofq.cli.experiment import run_experiment, run_study
from bestofq.cli.golden import golden
from bestofq.cli.judging import judge, say_warnings, tasks_of
from bestofq.cli.reporting import compare as compare_runs
from bestofq.cli.reporting import report
from bestofq.cli.results import results
from bestofq.cli.running import run as run_on_a_page
from bestofq.cli.study import study
from bestofq.cli.tasks import write_tasks
from bestofq.cli.viewing import view
from bestofq.cli.writing import write_json
from bestofq.core.errors import ConfigError, InputError
from bestofq.models.serving import model_app
from bestofq.recipes import best_of_q as recipe
from bestofq.recipes.benchmark import AGENTS, compare
from bestofq.recipes.parts import shipped_q
from bestofq.recipes.q_training import TrainingSet, learn
from bestofq.recipes.ranking import by_kind, oracle_steps
from bestofq.recipes.worlds import open_world
from bestofq.reports.costs import cost_table
from bestofq.reports.domains import domain_table
from bestofq.reports.origin import origins
from bestofq.reports.recall import recall, recall_sheet
from bestofq.reports.table import result_table
from bestofq.store.store import Store

app = typer.Typer(
    name="bestofq",
    help="Make a frozen web agent better at inference: of N proposed actions, take the one a learned Q values most.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()
app.command("run")(run_on_a_page)
app.command()(judge)
app.command("webvoyager")(tasks_of)
app.command("tasks")(write_tasks)
app.command()(embed)
app.command("agent-q")(agent_q)
app.command()(search)
app.command()(pairs)
app.command()(tune)
app.command()(report)
app.command()(golden)
app.command("compare")(compare_runs)
app.command()(study)
app.command()(results)
app.command()(view)


@app.command()
def demo(
    tasks: Annotated[int, typer.Option(help="Held-out tasks per agent.", min=2)] = 24,
    out: Annotated[
        Path | None, typer.Option(help="Where episodes and the report go; none: runs/demo or runs/demo-agentq.")
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Begin anew instead of going on.")] = True,
    agentq: Annotated[
        bool, typer.Option("--agentq", help="Agent Q instead: search, pairs, DPO, search again, on the booking site.")
    ] = False,
    config: Config = None,
    set_: Set = None,
    model: Model = None,
) -> None:
    """Watch the frozen pocket model shop in Chromium, with and without a Q-function; then learn and compare again."""
    if agentq:
        parts = parts_of(config, set_, model, None, *AGENT_Q_SETTINGS)
        asyncio.run(run_demo_agent_q(parts, console, tasks=tasks, out=out or Path("runs/demo-agentq"), fresh=fresh))
    elif config or set_ or model:
        raise ConfigError("the demo of Best-of-Q has its own settings: --config, --set and --model go with --agentq")
    else:
        asyncio.run(run_demo(console, tasks=tasks, out=out or Path("runs/demo"), fresh=fresh))


@app.command()
def doctor(
    webshop: Annotated[Path | None, typer.Option(help="Folder of the real WebShop files.")] = None,
) -> None:
    """Say what is there and what is missing, with the command that mends each line."""
    raise typer.Exit(examine(console, webshop=webshop))


@app.command()
def collect(
    config: Config = None,
    set_: Set = None,
    store: Folder = RUNS,
    run: Annotated[str, typer.Option(help="Name of the run.")] = recipe.SEED_RUN,
    agent: Annotated[str, typer.Option(help=f"explore, {', '.join(AGENTS)}.")] = "explore",
    repeats: Annotated[int | None, typer.Option(help="Passes over the tasks; none: seed_runs.", min=1)] = None,
    q: Q = None,
    data: Data = None,
    model: Model = None,
    base_url: BaseUrl = None,
) -> None:
    """Collect episodes on training tasks. The same command again goes on where it stopped."""
    kind = kind_of(agent)
    parts, values = with_values(parts_of(config, set_, model, base_url, data=data), q, [kind])
    say_warnings(parts)

    async def work() -> None:
        async with open_world(parts) as world:
            with Store.open(store) as opened:
                await recipe.collect(
                    parts,
                    world,
                    opened,
                    run,
                    kind,
                    console,
                    repeats=repeats or parts.settings.seed_runs,
                    values=values,
                )
                console.print(cost_table(opened, runs=[run], agents=[kind]).to_rich("Costs"))

    asyncio.run(work())


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for the Q-function.")],
    config: Config = None,
    set_: Set = None,
    store: Folder = RUNS,
    run: Annotated[list[str] | None, typer.Option(help="Runs to learn from; may be given again.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Replace another Q-function in --out.")] = False,
) -> None:
    """Learn Q and V by IQL from stored episodes. Resumable: run the same command again.

    The first steps tell the time it takes: iql.steps and iql.network.hidden change it. On several devices:
    torchrun --nproc-per-node N -m bestofq.cli.main train …
    """
    parts, runs = parts_of(config, set_), run or [recipe.SEED_RUN]

    def read() -> TrainingSet | None:
        with Store.open(store) as opened:
            return recipe.training_set(parts, opened, runs, out, console, again=again)

    learn(read, parts.settings.iql, out, console)


@app.command()
def improve(
    out: Annotated[Path, typer.Option(help="Folder for the Q-functions.")] = RUNS / "q",
    config: Config = None,
    set_: Set = None,
    store: Folder = RUNS,
    data: Data = None,
    model: Model = None,
    base_url: BaseUrl = None,
) -> None:
    """The whole recipe: collect, train, then cycles of exploit, add data, retrain. Resumable."""
    parts = parts_of(config, set_, model, base_url, data=data)
    say_warnings(parts)

    async def work() -> None:
        async with open_world(parts) as world:
            with Store.open(store) as opened:
                await recipe.best_of_q(parts, world, opened, out, console)
                runs = [recipe.SEED_RUN, *map(recipe.cycle_run, range(1, parts.settings.cycles + 1))]
                console.print(cost_table(opened, runs=runs).to_rich("Costs"))

    asyncio.run(work())


@app.command("eval")
def evaluate(
    suite: Annotated[str | None, typer.Argument(help=f"{SUITE_NAMES}; none: as in the settings.")] = None,
    config: Config = None,
    set_: Set = None,
    store: Folder = RUNS,
    q: Q = None,
    run: Annotated[str, typer.Option(help="Name of the run.")] = "eval",
    agents: Annotated[
        str | None, typer.Option(help="Comma-separated; none: all, without a Q-function those that need none.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    tasks: Annotated[
        str | None,
        typer.Option(help="How many at most, or globs of names: 'click-*,enter-*'; none: 200, of webvoyager all."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Passes over the tasks.")] = 3,
    n: Annotated[int | None, typer.Option(min=1, help="Candidates at inference; none: as in training.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
    data: Data = None,
    model: Model = None,
    base_url: BaseUrl = None,
) -> None:
    """Success ± standard error over runs, steps for success and cost of each agent (Tables 2 and 5 to 8)."""
    more = [f"suite.name={suite}"] if suite else []
    more += [] if tasks is None or tasks.isdecimal() else [f"suite.only={tasks}"]
    parts = parts_of(config, set_, model, base_url, *more, data=data)
    given = (
        agents.split(",")
        if agents
        else [kind for kind in AGENTS if q or shipped_q(parts.settings) or not parts.settings.reads_q(kind)]
    )
    kinds = [kind_of(kind.strip()) for kind in given]
    parts, values = with_values(parts, q, kinds)
    say_warnings(parts)

    async def work() -> None:
        async with open_world(parts) as world:
            with Store.open(store) as opened:
                await compare(
                    parts,
                    world,
                    opened,
                    run,
                    console,
                    agents=kinds,
                    values=values,
                    split=split_of(split),
                    tasks=limit_of(tasks, parts.settings.suite),
                    runs=runs,
                    n=n,
                )
                show(opened)

    def show(opened: Store) -> None:
        baseline = kinds[0] if len(kinds) > 1 else None
        table = result_table(opened, runs=[run], agents=kinds, split=split, baseline=baseline)
        costs = cost_table(opened, runs=[run], agents=kinds, split=split)
        name, groups = parts.suite.name, parts.settings.suite.groups
        domains = domain_table(opened, runs=[run], agents=kinds, split=split, baseline=baseline) if groups else None
        if domains is not None:
            console.print(domains.to_rich(f"{name}, {split}, by {groups}"))
        console.print(table.to_rich(f"{name}, {split}"))
        console.print(costs.to_rich("Costs"))
        if out is not None:
            result = {
                "command": "bestofq " + " ".join(sys.argv[1:]),
                "table": json.loads(table.to_json()),
                "costs": json.loads(costs.to_json()),
                **({} if domains is None else {"domains": json.loads(domains.to_json())}),
            }
            out.parent.mkdir(parents=True, exist_ok=True)
            write_json(out, result)
            console.print(f"written: {out}")

    asyncio.run(work())


@app.command("serve-model")
def serve_model(
    config: Config = None,
    set_: Set = None,
    model: Model = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the loopback interface.")] = 8000,
) -> None:
    """Serve a local model behind an OpenAI-compatible endpoint on loopback; its seeds give the draws made here."""
    uvicorn.run(model_app(parts_of(config, set_, model).model), host="127.0.0.1", port=port)


@app.command()
def rank(
    config: Config = None,
    set_: Set = None,
    store: Folder = RUNS,
    run: Annotated[str, typer.Option(help="An evaluated run.")] = "eval",
    agent: Annotated[str, typer.Option(help="Whose choices to count.")] = "best-of-q",
    data: Data = None,
) -> None:
    """Count right actions proposed and taken, against an oracle, per kind of page or task (Fig. 3, exactly)."""
    parts = parts_of(config, set_, data=data)
    with Store.open(store, read_only=True) as opened:
        steps = list(oracle_steps(parts, opened.episodes(run=run, agent=agent)))
        made = origins(opened, opened.summaries(run=run, agent=agent))
    rows = by_kind(steps)
    if not rows:
        raise InputError(
            f"no oracle knows what is right in the steps of {agent} in {run} on {parts.settings.suite.name}"
        )
    table = Table(title=f"{agent} in {run}: shares of steps, %")
    for name in (
        "page",
        "steps",
        "right proposed",
        "right chosen",
        "first right",
        "chance",
        "contested: chosen/first/chance",
    ):
        table.add_column(name, justify="left" if name == "page" else "right")
    for kind, row in rows.items():
        shares = (row.proposed, row.chosen, row.first, row.chance)
        contested = (row.contested_chosen, row.contested_first, row.contested_chance)
        table.add_row(
            kind,
            str(row.steps),
            *(f"{100 * share:.1f}" for share in shares),
            f"{row.contested}: " + " / ".join(f"{100 * share:.0f}" for share in contested),
        )
    console.print(table)
    console.print(recall_sheet([recall(agent, steps)], made, rater="the suite's oracle").to_rich())


@app.command()
def experiment(
    config: Config = None,
    set_: Set = None,
    out: Annotated[Path, typer.Option(help="Folder of the episodes and Q-functions.")] = Path("runs/experiment"),
    results: Annotated[Path, typer.Option(help="Folder of the committed results.")] = Path(
        "experiments/webshop-pocket"
    ),
    tasks: Annotated[int, typer.Option(min=2, help="Held-out test tasks.")] = 200,
    runs: Annotated[int, typer.Option(min=1, help="Passes over them; with --agent-q, trained models.")] = 3,
    agent_q: Annotated[
        bool, typer.Option("--agent-q", help="Agent Q's comparison: RFT, DPO, search, and search trees' policies.")
    ] = False,
    first: Annotated[
        int, typer.Option(min=0, help="With --agent-q, the first model's seed; models in --results stay in its table.")
    ] = 0,
    data: Data = None,
) -> None:
    """The full recipe from nothing but the pocket model, then all agents on held-out test tasks."""
    parts = parts_of(config, set_, data=data)
    if agent_q:
        title, seeds = f"{parts.settings.suite.name}: held-out test tasks", range(first, first + runs)
        asyncio.run(run_study(parts, console, out=out, results=results, tasks=tasks, seeds=seeds, title=title))
    elif first:
        raise InputError("--first says which model of Agent Q's comparison is trained first: give --agent-q with it")
    else:
        asyncio.run(run_experiment(parts, console, out=out, results=results, tasks=tasks, runs=runs))


@app.command()
def pocket(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint.")],
    config: Config = None,
    set_: Set = None,
) -> None:
    """Make the pocket model from nothing: demonstrations, tokenizer, training."""
    # takes a second that others need not wait
    from bestofq.recipes.pocket.pocket import PocketConfig, make_pocket_model

    make_pocket_model(load_config(PocketConfig, config, set_ or ()), out, console)
