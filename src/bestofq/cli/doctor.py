"""Say what is there and what is missing, each with the command that fixes it; or check a store."""

import re
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
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
    # Local imports: packages that they need may be missing.
    if store is not None:
        from bestofq.cli.store_check import check_store

        raise Exit(check_store(console, Location.of(store, files), mend=repair))
    refuse_given("without --store", repair=repair)
    with console.status("looking around"):
        findings = list(examine(Path()))
    missing = show_findings(findings, "bestofq doctor")
    console.print("All that is required is there." if not missing else f"Required and missing: {len(missing)}.")
    raise Exit(1 if missing else 0)


def examine(folder: Path) -> Iterator[Finding]:
    """The rows; runs will be stored in `folder`. Parts that need the packages are looked at only where those are."""
    found = ".".join(map(str, sys.version_info[:3]))
    yield Finding(what="Python", found=f"{found}, {sys.executable}")
    packages = list(_packages())
    yield from packages
    if all(row.ok for row in packages):
        from bestofq.cli.checks import examine_models

        yield from examine_models()
    yield _loopback()
    free = shutil.disk_usage(folder).free / 1e9
    fix = f"free {DISK - free:.1f} GB on the disk of {folder.resolve()}" if free < DISK else ""
    yield Finding(what="disk", found=f"{free:.1f} GB free, {DISK:g} GB needed", fix=fix)


def _packages() -> Iterator[Finding]:
    """One row when all are there, else one for each that is not."""
    try:
        wanted = [requirement for requirement in requires("bestofq") or () if "extra ==" not in requirement]
    except PackageNotFoundError:
        yield Finding(what="packages", found="bestofq itself is not installed", fix="make setup")
        return
    problems = [finding for requirement in wanted if (finding := package(requirement)) is not None]
    yield from problems
    if not problems:
        shown = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "playwright"))
        yield Finding(what="packages", found=f"all {len(wanted)}: {shown}, …")


def package(requirement: str) -> Finding | None:
    """What is wrong with the installed package of a requirement `name>=version`; None when it is right."""
    name, _, least = requirement.partition(">=")
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "not installed"
    have, need = ([int(number) for number in re.findall(r"\d+", text)[:3]] for text in (found, least))
    if have and have >= need:
        return None
    return Finding(what=f"package {name}", found=f"{found}; needs {least}", fix=f"pip install '{requirement}'")


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
    except OSError as error:
        return Finding(what="loopback", found=f"no port can be bound: {error}", fix="ip link set lo up")
    return Finding(what="loopback", found=f"127.0.0.1:{port} can be bound")
