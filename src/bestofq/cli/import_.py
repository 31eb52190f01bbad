"""Read the logs of other tools as episodes, to train on, to report and to look at. Again, it adds what is new.

What cannot be read is counted and named; what its log does not judge stays unjudged (bestofq judge).
"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bestofq.cli.options import IMPORTED, LOGS, Files, SplitName, Stored
from bestofq.cli.shared import store_at
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import DECIDED
from bestofq.core.errors import DataError
from bestofq.core.words import count_of
from bestofq.interop.importing import check_log, import_log
from bestofq.recipes.identity import current_provenance
from bestofq.reports.table import Table, columns
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.store.location import Location


def import_(
    kind: Annotated[
        str,
        Argument(
            metavar="KIND", help=f"{', '.join(LOGS)}, or my_package.my_module:reader.", autocompletion=lambda: [*LOGS]
        ),
    ],
    path: Annotated[Path, Argument(metavar="PATH", help="The log's file, or a folder with its files.")],
    store: Stored = IMPORTED,
    files: Files = None,
    run: Annotated[str, Option(help="Name of the run.")] = "imported",
    split: Annotated[
        SplitName | None, Option(help="train, dev or test. Default: train; of ATIF that bestofq wrote, its own.")
    ] = None,
) -> None:
    place = Location.of(store, files)
    check_log(kind, path)  # before a folder is made
    made = current_provenance(prompts="", seed=0)
    with store_at(place) as opened, bar() as progress:
        line = progress.add_task("importing", total=None)
        log = run_interruptible(
            import_log(opened, kind, path, run=run, split=split, made=made, on_record=lambda: progress.advance(line))
        )
        progress.update(line, total=log.episodes + log.repeated + log.malformed)
        examples = "; ".join(f"{where}: {reason}" for where, reason in log.examples)
        if not log.episodes:
            raise DataError(f"{path} holds no episode that can be read as {kind}: {examples or 'it holds no record'}")
    unjudged = log.episodes - log.decided
    judged = ", ".join(f"{log.outcomes[outcome]:,} {outcome}" for outcome in DECIDED if log.outcomes[outcome])
    counts = (
        ("episodes imported", log.new, ""),
        ("already there", log.episodes - log.new + log.repeated, ""),
        ("malformed", log.malformed, examples),
        ("with an outcome", log.decided, judged),
        ("without an outcome", unjudged, ""),
        ("steps", log.steps, ""),
        ("steps with several candidates", log.several, ""),
    )
    judge = f"bestofq judge --store {place} --run {run} --model …"
    notes = [f"Unjudged episodes teach nothing and count in no success rate: {judge}"] if unjudged else []
    if log.goalless:
        notes.append(f"{count_of(log.goalless, 'episode')} without a goal: from one start page they count as one task")
    title = f"{path}, read as {kind}, in the run {run} of {place}"
    console.print(Table.of("imported", title, columns("what", "count", "of these"), counts, *notes))
    console.print(f"see them: bestofq view {place}", highlight=False, soft_wrap=True, markup=False)
