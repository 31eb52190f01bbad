"""Write stored episodes for other tools: steps with all candidates, pairs and conversations for TRL, ATIF.

What is there already is replaced only by a whole new file.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from bestofq.cli.options import A_STORE, Files, SplitName, StoreArgument, Text, refuse_given
from bestofq.cli.writing import check_out
from bestofq.config.settings import AgentQSettings
from bestofq.core.words import count_of
from bestofq.interop.exporting import export_atif, export_conversations, export_preferences, export_steps
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store, Which

_UNITS = {"steps": "step", "preferences": "pair", "conversations": "conversation", "atif": "trajectory"}
PairOption = partial(Option, rich_help_panel="Preferences")


def export(
    kind: Annotated[
        Literal["steps", "preferences", "conversations", "atif"],
        Argument(metavar="KIND", help="steps, preferences, conversations or atif."),
    ],
    where: Annotated[Location, StoreArgument(metavar="STORE", help=A_STORE)],
    out: Annotated[Path, Option(help="File that ends in .parquet or .jsonl; of atif a new folder.")],
    files: Files = None,
    run: Annotated[Text, Option(help="Only this run.")] = None,
    agent: Annotated[Text, Option(help="Only this agent's episodes.")] = None,
    split: Annotated[SplitName | None, Option(help="Only this split.")] = None,
    failures: Annotated[bool, Option("--failures", help="Conversations: also those that did not succeed.")] = False,
    alpha: Annotated[
        float | None, PairOption(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = None,
    threshold: Annotated[float | None, PairOption(min=0, help="Least difference in Q of a pair (Algorithm 1).")] = None,
) -> None:
    if kind != "preferences":
        refuse_given(f"of {kind}", alpha=alpha, threshold=threshold)
    if kind != "conversations":
        refuse_given(f"of {kind}", failures=failures)
    if kind != "atif":
        check_out(out)
    selected: Which = {"run": run, "agent": agent, "split": split}
    with Store.open(Location.of(where, files), read_only=True) as store:
        match kind:
            case "steps":
                count = export_steps(store, selected, out)
            case "conversations":
                count = export_conversations(store, selected, out, failures=failures)
            case "preferences":
                defaults = AgentQSettings()
                alpha = defaults.alpha if alpha is None else alpha
                threshold = defaults.threshold if threshold is None else threshold
                count = export_preferences(store, selected, out, alpha=alpha, threshold=threshold)
            case "atif":
                count = export_atif(store, selected, out)
    console.print(f"{count_of(count, _UNITS[kind])} written to {out}", soft_wrap=True, markup=False)
