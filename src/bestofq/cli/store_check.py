"""`bestofq doctor --store`: which parts of a store are damaged, and what repair does with them."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from bestofq.cli.findings import Finding, show_findings
from bestofq.core.words import count_of
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.repair import Condition, examine, repair, unwritten

_NAMED = 5
_LOST = {  # by table: what happens to its damaged rows
    "runs": "their settings are lost: with --repair their episodes are read, and none are added",
    "trees": "{fix}; the same `bestofq search` then searches these tasks again",
    "verdicts": "{fix}; `bestofq judge` gives those of other judges again",
    "vectors": "{fix}; they are computed again when they are needed",
}


def check_store(folder: Location, *, mend: bool) -> int:
    """Print what is damaged; return 0 if nothing is, or if it was repaired. DataError without a store. A store that
    another command writes meanwhile is not repaired."""
    with unwritten(folder) if mend else nullcontext(lambda: None) as check:
        with console.status(f"comparing {folder} with what was written"):
            condition = examine(folder)
        show_findings(_findings(folder, condition), f"{folder}")
        if condition.intact:
            console.print("All is as it was written.")
        elif mend:
            aside = repair(folder, condition, check)
            console.print(
                f"Repaired: {folder} holds the {count_of(len(condition.kept['episodes']), 'episode')} as written; "
                f"the damaged store is {aside}.",
                markup=False,
            )
    return int(not (condition.intact or mend))


def _findings(folder: Location, condition: Condition) -> Iterator[Finding]:
    fix, lost, kept = f"bestofq doctor --store {folder} --repair", condition.lost, condition.kept

    yield Finding(what="database", found=condition.file or "its file is well", fix=fix if condition.file else "")
    again = f"{fix} leaves these out; the commands that made them then play their tasks again"
    damaged = {"episodes": (_join_names(condition.episodes), again)}
    damaged |= {name: (f"{lost[name]} more" if lost[name] else "", way.format(fix=fix)) for name, way in _LOST.items()}
    for name, (others, way) in damaged.items():
        count = f"{len(kept[name])} as written" + (f"; not: {others}" if others else "")
        yield Finding(what=name, found=count, fix=way if others else "")
    shown = _join_names([f"{path.name} (episode {episode})" for path, episode in condition.pictures.items()])
    gone = f"{fix}; they are lost, the texts of their pages are not"
    yield Finding(what="pictures", found=shown or "each as it was written", fix=gone if shown else "")


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
