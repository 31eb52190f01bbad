"""`bestofq agent-q`: Algorithm 1 in one go; `search`, `pairs` and `tune`: its steps one by one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.cli.choices import SUITE_NAMES, Config, Folder, Model, Q, Set, models_of, split_of, with_values
from bestofq.cli.spending import spending_by_role
from bestofq.core.errors import InputError
from bestofq.core.tree import SearchTree, Way
from bestofq.learning.distributed import is_first_process
from bestofq.recipes import agent_q as recipe
from bestofq.recipes.collect import begin
from bestofq.reports.searches import SearchRow, search_row, search_rows, search_table
from bestofq.store.pairs import read_pairs, write_pairs
from bestofq.store.store import Store

console = Console(quiet=not is_first_process())
SEARCHES = Path("runs/agent-q")
Run = Annotated[str, typer.Option(help="Name of the searches.")]


def agent_q(
    suite: Annotated[str | None, typer.Argument(help=f"{SUITE_NAMES}; none: as in the settings.")] = None,
    config: Config = None,
    set_: Set = None,
    store: Folder = SEARCHES,
    out: Annotated[Path | None, typer.Option(help="Folder for the policies; none: the store's.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Search, pairs, DPO; none: agent_q.rounds.")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Searched a round; none: agent_q.tasks.")] = None,
    model: Model = None,
) -> None:
    """Agent Q's Algorithm 1: rounds of search, preference pairs, DPO. The same command again goes on where it stopped.

    Each round searches further training tasks by the policy that the round before made. The model
    writes composite actions: --set model.dialect=composite.
    """
    given = {"suite.name": suite, "agent_q.rounds": rounds, "agent_q.tasks": tasks}
    more = [f"{name}={value}" for name, value in given.items() if value is not None]
    run_agent_q(models_of(config, set_, model, None, *more), store, out or store, console)


def run_agent_q(models: Models, store: Path, out: Path, console: Console) -> Path:
    """The rounds, and a table of their searches; the folder of the last policy. No folder is made where it refuses."""
    chosen = models.settings.agent_q
    runs = [recipe.round_run(number) for number in range(1, chosen.rounds + 1)]

    async def work() -> tuple[Models, list[SearchRow]]:
        recipe.check(models)
        async with open_suite(models) as suite:
            await recipe.training_tasks(models.settings, suite, chosen.rounds)
            with Store.open(store) as opened:
                policy = await recipe.agent_q(RunContext(models, suite, opened, console), out)
                return policy, search_rows(opened, runs, alpha=chosen.alpha, threshold=chosen.threshold)

    policy, searches = asyncio.run(work())
    console.print(search_table(searches).titled(f"{models.settings.suite.name}, train"))
    for said in spending_by_role(used for row in searches for used in row.usage):
        console.print(said)
    folder = Path(policy.settings.model.path)
    console.print(f"the last policy: {folder}; what it reaches: bestofq eval --agents prompting --model {folder} …")
    return folder


def search(
    suite: Annotated[str | None, typer.Argument(help=f"{SUITE_NAMES}; none: as in the settings.")] = None,
    config: Config = None,
    set_: Set = None,
    store: Folder = SEARCHES,
    run: Run = recipe.SEARCH_RUN,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "train",
    tasks: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    model: Model = None,
    q: Q = None,
) -> None:
    """Grow a search tree for each task: MCTS with feedback. The same command again goes on where it stopped."""
    more = [f"suite.name={suite}"] if suite else []
    models, values = with_values(models_of(config, set_, model, None, *more), q, ["mcts"])

    async def work() -> list[SearchTree]:
        async with open_suite(models) as played:
            chosen = await played.tasks(split_of(split), tasks)
            with Store.open(store) as opened:
                context = RunContext(models, played, opened, console)
                await begin(context, run, split_of(split), values=values)
                return await recipe.search_tasks(context, run, chosen, values)

    chosen = models.settings.agent_q
    trees = asyncio.run(work())
    row = search_row(run, trees, alpha=chosen.alpha, threshold=chosen.threshold)
    console.print(search_table([row]).titled(f"{models.settings.suite.name}, {split}"))
    console.print(_ways_back(trees))
    for said in spending_by_role(row.usage):
        console.print(said)


def pairs(
    out: Annotated[Path, typer.Option(help="The Parquet file.")],
    config: Config = None,
    set_: Set = None,
    store: Folder = SEARCHES,
    run: Run = recipe.SEARCH_RUN,
    trajectories: Annotated[
        bool, typer.Option("--trajectories", help="Whole successes against failures (Eq. 6), not single actions.")
    ] = False,
    model: Model = None,
) -> None:
    """Write the preference pairs of searched trees, with the likelihoods their actions were drawn with."""
    models = models_of(config, set_, model)
    with Store.open(store, read_only=True) as opened:
        trees = recipe.searched_trees(models, opened, run)
    make = recipe.trajectory_pairs if trajectories else recipe.step_pairs
    found = list(make(models, trees))
    recipe.need_pairs(found, len(trees))
    write_pairs(out, found, recipe.source(models), decode=models.local.tokenizer.decode)
    console.print(f"{len(found):,} pairs of {len({pair.task for pair in found})} tasks from {len(trees)} trees: {out}")


def tune(
    out: Annotated[Path, typer.Option(help="Folder for the tuned model.")],
    pairs: Annotated[Path | None, typer.Option(help="Parquet file of `bestofq pairs`: DPO.")] = None,
    replay: Annotated[
        list[Path] | None, typer.Option(help="Pairs that earlier rounds' models drew: trained on too. Repeatable.")
    ] = None,
    config: Config = None,
    set_: Set = None,
    store: Folder = SEARCHES,
    run: Run = recipe.SEARCH_RUN,
    model: Model = None,
) -> None:
    """Tune the model that searched: by DPO on pairs, or without any by RFT on its successful rollouts. Resumable.

    On several devices by a launcher: accelerate launch -m bestofq.cli.main tune …
    """
    models = models_of(config, set_, model)
    if replay and pairs is None:
        raise InputError("--replay adds to the pairs that this model drew: give these by --pairs")
    if pairs is not None:
        source = recipe.source(models)
        earlier = [pair for file in replay or () for pair in read_pairs(file, source=source, replayed=True)]
        folder = recipe.tune(models, [*earlier, *read_pairs(pairs, source=source)], out, console)
    else:
        with Store.open(store, read_only=True) as opened:
            trees = recipe.searched_trees(models, opened, run)
        folder = recipe.reinforce(models, trees, out, console)
    console.print(f"the tuned model: {folder}")


def _ways_back(trees: Sequence[SearchTree]) -> str:
    """How often a search came back to a page in each way, and what that took on average."""
    told = []
    for way in get_args(Way):
        back = [one for tree in trees for one in tree.back if one.way == way]
        count = sum(one.count for one in back)
        told.append(f"{way} {count:,} × {1000 * sum(one.seconds for one in back) / max(1, count):.1f} ms")
    return f"back to a page: {', '.join(told)}"
