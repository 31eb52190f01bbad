"""The commands: one per recipe."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from rich.console import Console

from bestofq.build.agents import proposer_name, shipped_q
from bestofq.build.context import RunContext, open_suite
from bestofq.cli.ablation import ablation
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
    models_of,
    split_of,
    with_values,
)
from bestofq.cli.demo import run_demo
from bestofq.cli.demo_agent_q import SETTINGS as AGENT_Q_SETTINGS
from bestofq.cli.demo_agent_q import run_demo_agent_q
from bestofq.cli.doctor import doctor as examine
from bestofq.cli.embedding import embed
from bestofq.cli.golden import golden
from bestofq.cli.judging import judge, say_warnings, tasks_of
from bestofq.cli.reporting import compare as compare_runs
from bestofq.cli.reporting import report
from bestofq.cli.running import run as run_on_a_page
from bestofq.cli.tasks import write_tasks
from bestofq.cli.viewing import view
from bestofq.cli.writing import write_json
from bestofq.core.errors import ConfigError
from bestofq.envs.suites import make_suite
from bestofq.models.serving import model_app
from bestofq.recipes import best_of_q as recipe
from bestofq.recipes.benchmark import AGENTS, compare
from bestofq.recipes.collect import Play
from bestofq.recipes.collect import collect as play_and_store
from bestofq.recipes.provenance import this_command
from bestofq.recipes.q_training import TrainingSet, learn
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.domains import domain_grid, domain_results
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import agent_results, success_table
from bestofq.store.run_names import SEED_RUN, cycle_run
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
app.command()(ablation)
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
        models = models_of(config, set_, model, None, *AGENT_Q_SETTINGS)
        asyncio.run(run_demo_agent_q(models, console, tasks=tasks, out=out or Path("runs/demo-agentq"), fresh=fresh))
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
    run: Annotated[str, typer.Option(help="Name of the run.")] = SEED_RUN,
    agent: Annotated[str, typer.Option(help=f"explore, {', '.join(AGENTS)}.")] = "explore",
    repeats: Annotated[int | None, typer.Option(help="Passes over the tasks; none: seed_runs.", min=1)] = None,
    q: Q = None,
    data: Data = None,
    model: Model = None,
    base_url: BaseUrl = None,
) -> None:
    """Collect episodes on training tasks. The same command again goes on where it stopped."""
    kind = kind_of(agent)
    models, values = with_values(models_of(config, set_, model, base_url, data=data), q, [kind])
    named = make_suite(models.settings.suite)
    say_warnings(named)

    async def work() -> None:
        async with open_suite(models, named) as suite:
            with Store.open(store) as opened:
                context = RunContext(models, suite, opened, console)
                await play_and_store(context, run, Play(kind, repeats or models.settings.seed_runs, values))
                console.print(cost_table(agent_costs(opened, Selection(runs=[run], agents=[kind]))))

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

    Prints the sizes first and the time left after the first steps. Shorter: --set iql.steps=1000. The paper's network:
    --set iql.network.hidden=paper. On several devices: torchrun --nproc-per-node N -m bestofq.cli.main train …
    """
    models, runs = models_of(config, set_), run or [SEED_RUN]

    def read() -> TrainingSet | None:
        with Store.open(store) as opened:
            return recipe.training_set(models, opened, runs, out, console, again=again)

    learn(read, models.settings.iql, out, console)


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
    models = models_of(config, set_, model, base_url, data=data)
    named = make_suite(models.settings.suite)
    say_warnings(named)

    async def work() -> None:
        async with open_suite(models, named) as suite:
            with Store.open(store) as opened:
                await recipe.best_of_q(RunContext(models, suite, opened, console), out)
                runs = [SEED_RUN, *map(cycle_run, range(1, models.settings.cycles + 1))]
                console.print(cost_table(agent_costs(opened, Selection(runs=runs))))

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
    models = models_of(config, set_, model, base_url, *more, data=data)
    named = make_suite(models.settings.suite)
    kinds = [kind_of(kind.strip()) for kind in agents.split(",")] if agents else [*AGENTS]
    if not agents and not q and not shipped_q(models.settings):
        learned = [kind for kind in kinds if models.settings.reads_q(kind)]
        kinds = [kind for kind in kinds if kind not in learned]
        console.print(
            f"{' and '.join(learned)} are left out: "
            f"no Q-function ships for {proposer_name(models.settings)} on {named.name}, and --q gives none."
        )
    models, values = with_values(models, q, kinds)
    say_warnings(named)

    async def work() -> None:
        async with open_suite(models, named) as played:
            if "prior" in kinds and not await models.gives_log_probs():
                sentence = f"{proposer_name(models.settings)} gives no log-probabilities, which the agent prior needs"
                if agents:
                    raise ConfigError(f"{sentence}: leave prior out of --agents")
                kinds.remove("prior")
                console.print(f"prior is left out: {sentence}.")
            with Store.open(store) as opened:
                await compare(
                    RunContext(models, played, opened, console),
                    run,
                    kinds,
                    values=values,
                    split=split_of(split),
                    tasks=limit_of(tasks, models.settings.suite),
                    runs=runs,
                    n=n,
                )
                show(opened)

    def show(opened: Store) -> None:
        baseline = None if len(kinds) < 2 else BASELINE if BASELINE in kinds else kinds[0]
        chosen = Selection(runs=[run], agents=kinds, split=split, baseline=baseline)
        results, costs = agent_results(opened, chosen), agent_costs(opened, chosen)
        name, groups = named.name, models.settings.suite.groups
        domains = domain_results(opened, chosen) if groups else None
        if domains is not None:
            console.print(domain_grid(domains).titled(f"{name}, {split}, by {groups}"))
        console.print(success_table(results).titled(f"{name}, {split}"))
        console.print(cost_table(costs))
        if out is not None:
            result = {
                "command": this_command(),
                "table": results.model_dump(mode="json"),
                "costs": costs.model_dump(mode="json"),
                **({} if domains is None else {"domains": domains.model_dump(mode="json")}),
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
    uvicorn.run(model_app(models_of(config, set_, model).local), host="127.0.0.1", port=port)
