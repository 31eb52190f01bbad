"""`bestofq doctor --store`: what of a store is not what was written, and what becomes of it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from rich.console import Console

from bestofq.cli.findings import Finding, show_findings
from bestofq.store.location import Location
from bestofq.store.repair import Condition, examine, repair, unwritten

_NAMED = 5


def check_store(out: Console, folder: Location, *, mend: bool) -> int:
    """Print what was found; 0 where all is what was written, or was repaired. DataError where there is no store.
    Nothing is left out that another command commits meanwhile: then, and while one writes, it is not repaired."""
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
    fix = f"bestofq doctor --store {folder} --repair"
    lost, kept = condition.lost, condition.kept
    yield Finding(what="database", found=condition.file or "its file is well", fix=fix if condition.file else "")
    yield Finding(
        what="episodes",
        found=_of(len(kept["episodes"]), _join_names(condition.episodes)),
        fix=f"{fix} leaves these out; the commands that made them then play their tasks again"
        if condition.episodes
        else "",
    )
    again = {
        "runs": "their settings are lost: with --repair their episodes are read, and none are added",
        "trees": f"{fix}; the same `bestofq search` then searches these tasks again",
        "verdicts": f"{fix}; `bestofq judge` gives those of other judges again",
        "vectors": f"{fix}; they are computed again when they are needed",
        "shards": f"{fix}; the vectors in them are computed again when they are needed",
    }
    for name, way in again.items():
        yield Finding(
            what=name,
            found=_of(len(kept[name]), f"{lost[name]} more" if lost[name] else ""),
            fix=way if lost[name] else "",
        )
    shown = _join_names([f"{path.name} (episode {episode})" for path, episode in condition.pictures.items()])
    way = f"{fix}; they are lost, the texts of their pages are not"
    yield Finding(what="pictures", found=shown or "each as it was written", fix=way if shown else "")


def _of(count: int, others: str) -> str:
    return f"{count} as written" + (f"; not: {others}" if others else "")


def _join_names(names: "tuple[str, ...] | list[str]") -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
