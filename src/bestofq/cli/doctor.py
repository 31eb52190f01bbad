"""Say what is there and what is missing, each with the command that fixes it; or check a store."""

import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from typer import Exit

from bestofq.cli.findings import Finding, show_findings
from bestofq.cli.options import Files, StoreOption, StorePlace
from bestofq.rollouts.console import console
from bestofq.store.location import Location

DISK = 2.0  # GB; the demo's store, pictures and checkpoints take a part of one


def doctor(
    store: Annotated[StorePlace, StoreOption(help="Compare all of it with what was written.")] = None,
    files: Files = None,
) -> None:
    if store is not None:
        raise Exit(check_store(Location.of(store, files)))
    with console.status("looking around"):
        findings = list(examine(Path()))
    missing = show_findings(findings, "bestofq doctor")
    console.print("All that is required is there." if not missing else f"Required and missing: {len(missing)}.")
    raise Exit(1 if missing else 0)


def check_store(place: Location) -> int:
    """Print what is damaged in a store; return 1 if anything is. DataError without a store."""
    from bestofq.store.store import Store  # packages that it needs may be missing

    with Store.open(place, read_only=True) as opened, console.status(f"comparing {place} with what was written"):
        damage = list(opened.find_damage())
    for sentence in damage or ["All is as it was written."]:
        console.print(sentence, markup=False, highlight=False)
    return int(bool(damage))


def examine(folder: Path) -> Iterator[Finding]:
    """Yield the rows. Runs will be stored in `folder`."""
    yield Finding(what="Python", found=f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")
    try:
        from bestofq.cli.checks import examine_tools  # packages that it needs may be missing
    except ImportError as error:
        yield Finding(what="packages", found=str(error), fix="pip install --upgrade bestofq; pip check")
    else:
        shown = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "playwright"))
        yield Finding(what="packages", found=f"{shown}, …")
        yield from examine_tools()
    free = shutil.disk_usage(folder).free / 1e9
    fix = f"free {DISK - free:.1f} GB on the disk of {folder.resolve()}" if free < DISK else ""
    yield Finding(what="disk", found=f"{free:.1f} GB free, {DISK:g} GB needed", fix=fix)
