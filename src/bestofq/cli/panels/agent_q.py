"""Agent Q (arXiv 2408.07199): Algorithm 1 in one go, and its steps one by one."""

from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, LogTo, Place, Places, Q, Split, Tasks, console, takes

Run = Annotated[str, Option(help="Name of the searches.")]


@takes("suite", "model", "data", "config", "set_", "store", "dry_run")
def agent_q(
    given: CommonOptions,
    rounds: Annotated[int | None, Option(min=1, help="Of search, pairs and DPO. Default: agent_q.rounds.")] = None,
    tasks: Tasks = None,
    out: Annotated[Place, Option(help="Folder for the policies. Default: the store's.")] = None,
) -> None:
    """Agent Q's Algorithm 1: rounds of search, preference pairs, DPO. Resumable: run the same command again.

    Each round searches --tasks further training tasks (agent_q.tasks) with the policy of the round before. The model
    writes composite actions: --set model.dialect=composite.
    """
    from bestofq.cli.planning import plan_searches
    from bestofq.cli.searching import run_agent_q
    from bestofq.cli.settings import models_of, store_of, training_tasks
    from bestofq.cli.writing import check_folder
    from bestofq.recipes.agent_q import round_run

    check_folder(out)
    more = [] if rounds is None else [f"agent_q.rounds={rounds}"]
    more += training_tasks(tasks, "agent_q.tasks")
    models = models_of(given, *more)
    folder, chosen = store_of(given, models), models.settings.agent_q
    if given.dry_run:
        plan_searches(models, folder, [round_run(n) for n in range(1, chosen.rounds + 1)], "train", chosen.tasks)
    else:
        run_agent_q(models, folder, out or folder.folder, console)


@takes()
def search(given: CommonOptions, run: Run = "search", split: Split = "train", tasks: Tasks = None, q: Q = None) -> None:
    """Grow a search tree for each task, 100 tasks by default: MCTS with feedback. Resumable."""
    from bestofq.cli.planning import plan_searches
    from bestofq.cli.searching import SEARCHED, search_and_show
    from bestofq.cli.settings import models_of, named_only, store_of, with_values

    number = int(tasks) if tasks and tasks.isdecimal() else SEARCHED
    models, values = with_values(models_of(given, *named_only(tasks)), q, ["mcts"])
    folder = store_of(given, models)
    if given.dry_run:
        plan_searches(models, folder, [run], split, number)
    else:
        search_and_show(models, given, run, split, number, values)


@takes("suite", "model", "config", "set_", "store")
def pairs(
    given: CommonOptions,
    out: Annotated[Path, Option(help="The Parquet file.")],
    run: Run = "search",
    trajectories: Annotated[
        bool, Option("--trajectories", help="Whole successes against failures (Eq. 6), not single actions.")
    ] = False,
) -> None:
    """Write the preference pairs of searched trees, with the likelihoods their actions were drawn with."""
    from bestofq.cli.settings import models_of, store_of
    from bestofq.cli.writing import check_out
    from bestofq.recipes import policy_training as recipe
    from bestofq.store.pairs import write_pairs
    from bestofq.store.store import Store

    check_out(out)
    models = models_of(given)
    with Store.open(store_of(given, models), read_only=True) as opened:
        trees = recipe.searched_trees(models, opened, run)
    make = recipe.trajectory_pairs if trajectories else recipe.step_pairs
    found = list(make(models, trees))
    recipe.need_pairs(found, len(trees))
    write_pairs(out, found, recipe.source(models), decode=models.tokens.tokenizer.decode)
    console.print(f"{len(found):,} pairs of {len({pair.task for pair in found})} tasks from {len(trees)} trees: {out}")


@takes("suite", "model", "config", "set_", "store", "dry_run")
def tune(
    given: CommonOptions,
    out: Annotated[Path, Option(help="Folder for the tuned model.")],
    pairs: Annotated[Place, Option(help="Parquet file of `bestofq pairs`: DPO.")] = None,
    replay: Annotated[
        Places, Option(help="Pairs that earlier rounds' models drew: trained on too. Repeatable.")
    ] = None,
    run: Run = "search",
    log_to: LogTo = None,
) -> None:
    """Tune the model that searched: by DPO on pairs, or without any by RFT on its successful rollouts. Resumable.

    On several devices by a launcher: accelerate launch -m bestofq.cli.main tune …
    """
    from bestofq.cli.settings import models_of, store_of
    from bestofq.cli.writing import check_folder
    from bestofq.core.errors import InputError
    from bestofq.learning.distributed import is_first_process
    from bestofq.learning.tracking import open_tracker
    from bestofq.recipes import policy_training as recipe
    from bestofq.store.pairs import read_pairs
    from bestofq.store.store import Store

    console.quiet = not is_first_process()
    check_folder(out)
    models = models_of(given)
    if replay and pairs is None:
        raise InputError("--replay adds to the pairs that this model drew: give these by --pairs")
    if pairs is not None:
        source = recipe.source(models)
        earlier = [pair for file in replay or () for pair in read_pairs(file, source=source, replayed=True)]
        found = [*earlier, *read_pairs(pairs, source=source)]
        if given.dry_run:
            console.print(f"DPO would learn from {len(found):,} pairs, {len(earlier):,} of earlier rounds: {out}")
            return
        with open_tracker(log_to, out) as log:
            folder = recipe.tune(models, found, out, console, replayed=bool(earlier), log=log)
    else:
        with Store.open(store_of(given, models), read_only=True) as opened:
            trees = recipe.searched_trees(models, opened, run)
        if given.dry_run:
            won = sum(1 for _ in recipe.successful_turns(models, trees))
            console.print(f"RFT would learn from {won:,} successful rollouts of {len(trees):,} trees: {out}")
            return
        with open_tracker(log_to, out) as log:
            folder = recipe.reinforce(models, trees, out, console, log=log)
    console.print(f"the tuned model: {folder}")
