"""Say what is there and what is missing, each with the command that fixes it; or check a store."""

import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from bestofq.cli.findings import Finding, show_findings
from bestofq.cli.options import Files, StoreOption, StorePlace, refuse_given
from bestofq.rollouts.console import console
from bestofq.store.location import Location

DISK = 2.0  # GB; the demo's store, pictures and checkpoints take a part of one


def doctor(
    store: Annotated[StorePlace, StoreOption(help="Compare all of it with what was written.")] = None,
    files: Files = None,
    repair: Annotated[bool, Option("--repair", help="With --store: leave out what is damaged; keep the old file.")] = (
        False
    ),
) -> None:
    if store is not None:
        from bestofq.cli.store_check import check_store  # packages that it needs may be missing

        raise Exit(check_store(Location.of(store, files), mend=repair))
    refuse_given("without --store", repair=repair)
    with console.status("looking around"):
        findings = list(examine(Path()))
    missing = show_findings(findings, "bestofq doctor")
    console.print("All that is required is there." if not missing else f"Required and missing: {len(missing)}.")
    raise Exit(1 if missing else 0)


def examine(folder: Path) -> Iterator[Finding]:
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
