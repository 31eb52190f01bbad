"""`bestofq import`: logs of other tools as stored episodes, and what can be computed from them."""

from bestofq.cli.options import Log, console
from bestofq.cli.settings import store_at
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import DECIDED
from bestofq.core.errors import DataError
from bestofq.interop.importing import Imported, check_log, import_log
from bestofq.recipes.provenance import current_provenance
from bestofq.reports.table import Row, Table, columns
from bestofq.rollouts.progress import bar


def import_episodes(wanted: Log) -> None:
    """Import them, and print what was found and what it lacks."""
    check_log(wanted.kind, wanted.path)  # before a folder is made
    made = current_provenance(prompts="", seed=0)
    with store_at(wanted.store) as store, bar(console) as shown:
        line = shown.add_task("importing", total=None)
        found = run_interruptible(
            import_log(
                store,
                wanted.kind,
                wanted.path,
                run=wanted.run,
                split=wanted.split,
                made=made,
                on_record=lambda: shown.advance(line),
            )
        )
        shown.update(line, total=found.episodes + found.repeated + found.malformed)
        if not found.episodes:
            why = "; ".join(f"{where}: {reason}" for where, reason in found.examples) or "it holds no record"
            raise DataError(f"{wanted.path} holds no episode that can be read as {wanted.kind}: {why}")
    console.print(imported_table(found, wanted))
    console.print(f"see them: bestofq view {wanted.store}", highlight=False, soft_wrap=True, markup=False)


def imported_table(found: Imported, wanted: Log) -> Table:
    """Counts, the first malformed records, and what cannot be computed."""
    unjudged = found.episodes - found.decided
    judged = ", ".join(f"{found.outcomes[outcome]:,} {outcome}" for outcome in DECIDED if found.outcomes[outcome])
    counts = (
        ("episodes imported", found.new, ""),
        ("already there", found.episodes - found.new + found.repeated, ""),
        ("malformed", found.malformed, "; ".join(f"{where}: {reason}" for where, reason in found.examples)),
        ("with an outcome", found.decided, judged),
        ("without an outcome", unjudged, ""),
        ("steps", found.steps, ""),
        ("steps with several candidates", found.has["several candidates"], ""),
    )
    judge = f"bestofq judge --store {wanted.store} --run {wanted.run} --model …"
    missing = [f"unjudged episodes teach nothing and count in no success rate: {judge}"] if unjudged else []
    missing += found.missing
    return Table(
        name="imported",
        title=f"{wanted.path}, read as {wanted.kind}, in the run {wanted.run} of {wanted.store}",
        columns=columns("what", "count", "of these"),
        rows=tuple(Row(cells=row) for row in counts),
        notes=("What cannot be computed:", *missing) if missing else (),
    )
