"""Say whether a Q-function is worth deploying, from logged episodes alone: nobody plays.

Q ranks episodes of tasks that it did not learn from. Where it learned from all of them, and without --q,
Q-functions of four fifths of the tasks each rank the others. The episodes must be of an agent that explores
(bestofq collect). What it finds is kept beside the Q-function.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, Place, Texts, takes
from bestofq.cli.shared import models_of, open_existing_store, store_of
from bestofq.config.agents import load_values
from bestofq.config.models import Models
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.gate import Gate, Held
from bestofq.core.logged import LoggedChoices
from bestofq.learning.checkpoint import read_card
from bestofq.recipes.estimate import FOLDS, cross_fit, learned_from, learned_set, logs_of, not_learned_from, rank_logs
from bestofq.recipes.q_training import select_episodes
from bestofq.reports.estimate import OffPolicyEstimate, gate_line, verdict_line
from bestofq.reports.estimate import estimate as estimate_lift
from bestofq.reports.gate import SHUT, gate_table
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store

TRIALS = "trials"  # in a Q-function's folder or a store: Q-functions of a part of the tasks


@takes("suite", "model", "config", "set_", "store")
def estimate(
    options: CommonOptions,
    q: Annotated[Place, Option(help="Folder of the Q-function. Default: one as the settings say.")] = None,
    run: Annotated[Texts, Option(help="Run whose episodes tell. Repeatable. Default: seed.")] = None,
    folds: Annotated[int, Option(min=1, max=5, help="Fifths of the tasks to hold out, each with a training.")] = 5,
) -> None:
    models = models_of(options)
    folder = store_of(options, models)
    with open_existing_store(folder) as store:
        found, others, own = _held_out(models, store, run or ["seed"], q, folder / TRIALS, folds)
    told = estimate_lift(found, learned_set(q)[0] if q and own else None, others)
    if q and own:
        _keep(told, q)
    console.print(verdict_line(told), style="bold", highlight=False)
    console.print(gate_table(told.gate, told.thresholds))
    console.print(gate_line(told), highlight=False)


def _held_out(
    models: Models, store: Store, runs: Sequence[str], q: Path | None, out: Path, folds: int
) -> tuple[LoggedChoices, dict[Held, LoggedChoices], bool]:
    """Held-out tasks, what else was held out, and whether they tell of `q`. Without one, Q-functions go to `out`."""
    episodes = select_episodes(store, runs)
    if q is None:
        return *cross_fit(models, store, episodes, out, folds), False
    models, values = load_values(q, models)
    if models.settings.value == "network":
        models = models.with_settings(models.settings.model_copy(update={"iql": read_card(q).config}))
    fresh = not_learned_from(q, episodes)
    if fresh is None:
        console.print(f"{q} does not tell what it learned from: if from these tasks, it looks too good", style="yellow")
    if fresh == []:
        console.print(f"{q} learned from these tasks: Q-functions like it, of four fifths of them, rank the others")
        if (learned := learned_from(q, store, runs)) is None:
            console.print(
                f"{q} learned from other episodes of these tasks, or they have other verdicts now: what follows is not "
                "about it, and is not kept there. Give --run as for the training, or train again",
                style="yellow",
            )
        return *cross_fit(models, store, learned or episodes, q / TRIALS, folds), learned is not None
    logs = logs_of(models, store, episodes if fresh is None else fresh)
    return rank_logs(logs, values), {}, True


def estimate_trained_q(models: Models, folder: Location, runs: Sequence[str], episodes: int | None, out: Path) -> None:
    """One line, of a fifth of the tasks that a Q-function of the others ranks; kept in `out`. Where nothing can be held
    out, the line says why, and the gate stays shut."""
    told = estimate_of(out)
    if told is None:
        _keep(None, out)
        console.print("Is it worth it? A Q-function of four fifths of the tasks ranks the others:")
        try:
            with open_existing_store(folder) as store:
                folds = FOLDS if models.settings.value == "memory" else 1  # remembering takes no time
                both = cross_fit(models, store, select_episodes(store, runs, episodes), out / TRIALS, folds)
        except InputError as error:
            console.print(f"no estimate: {error}", style="yellow", highlight=False, markup=False)
            return
        told = estimate_lift(both[0], learned_set(out)[0], both[1])
        _keep(told, out)
    console.print(verdict_line(told), highlight=False, markup=False)
    if models.settings.gate != "off":
        console.print(gate_line(told), highlight=False, markup=False)


def _keep(told: OffPolicyEstimate | None, q: Path) -> None:
    """Write the estimate (None: there is none yet) and the gate, unless only other episodes can tell of one."""
    checkpoint = learned_set(q)[0]
    if told:
        told.write(q)
    if (told and told.gated) or Gate.load(q, checkpoint) is None:
        Gate(checkpoint=checkpoint, thresholds=told.thresholds if told else SHUT).save(q)


def estimate_of(q: Path) -> OffPolicyEstimate | None:
    """That of the Q-function in a folder; None where there is none, or one of another Q-function."""
    found = OffPolicyEstimate.read(q)
    return found if found and found.checkpoint == learned_set(q)[0] else None


def refuse_useless(q: Path) -> None:
    """ConfigError where the Q-function in a folder is not shown to help: its gate is shut, or it has none."""
    gate = Gate.load(q, learned_set(q)[0])
    if gate is None:
        raise ConfigError(f"{q} has no gate: calibrate one by bestofq estimate --q {q}, or rank without: --insist")
    if gate.thresholds == SHUT:
        said = "its gate is shut: no other choice is sure to help. Leave --rank out, watch it with --shadow"
        raise ConfigError(f"{q}: {said}, or rank without a gate: --insist")
