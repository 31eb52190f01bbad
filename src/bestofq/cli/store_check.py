"""`bestofq doctor --store`: which parts of a store are damaged, and what repair does with them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext

from rich.console import Console

from bestofq.cli.findings import Finding, show_findings
from bestofq.store.location import Location
from bestofq.store.repair import Condition, examine, repair, unwritten

_NAMED = 5
_LOST = {  # by table: what happens to its damaged rows
    "runs": "their settings are lost: with --repair their episodes are read, and none are added",
    "trees": "{fix}; the same `bestofq search` then searches these tasks again",
    "verdicts": "{fix}; `bestofq judge` gives those of other judges again",
    "vectors": "{fix}; they are computed again when they are needed",
    "shards": "{fix}; the vectors in them are computed again when they are needed",
}


def check_store(out: Console, folder: Location, *, mend: bool) -> int:
    """Print what is damaged; return 0 if nothing is, or if it was repaired. DataError without a store. A store that
    another command writes meanwhile is not repaired."""
    with unwritten(folder) if mend else nullcontext(lambda: None) as check:
        return _check_store(out, folder, check, mend=mend)


def _check_store(out: Console, folder: Location, check: Callable[[], None], *, mend: bool) -> int:
    with out.status(f"comparing {folder} with what was written"):
        condition = examine(folder)
    show_findings(_findings(folder, condition), f"{folder}", out)
    if condition.intact:
        out.print("All is as it was written.")
        return 0
    if not mend:
        return 1
    aside = repair(folder, condition, check)
    out.print(f"Repaired: {folder} holds what is as it was written; the damaged store is {aside}.", markup=False)
    return 0


def _findings(folder: Location, condition: Condition) -> Iterator[Finding]:
    fix, lost, kept = f"bestofq doctor --store {folder} --repair", condition.lost, condition.kept

    def finding(what: str, found: str, damaged: object, way: str) -> Finding:
        return Finding(what=what, found=found, fix=way if damaged else "")

    def count(name: str, others: str) -> str:
        return f"{len(kept[name])} as written" + (f"; not: {others}" if others else "")

    yield finding("database", condition.file or "its file is well", condition.file, fix)
    again = f"{fix} leaves these out; the commands that made them then play their tasks again"
    yield finding("episodes", count("episodes", _join_names(condition.episodes)), condition.episodes, again)
    for name, way in _LOST.items():
        yield finding(name, count(name, f"{lost[name]} more" if lost[name] else ""), lost[name], way.format(fix=fix))
    shown = _join_names([f"{path.name} (episode {episode})" for path, episode in condition.pictures.items()])
    gone = f"{fix}; they are lost, the texts of their pages are not"
    yield finding("pictures", shown or "each as it was written", shown, gone)


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
