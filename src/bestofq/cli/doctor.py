"""`bestofq doctor`: what is there, what is missing, and the command that fixes it, in one table."""

import importlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from bestofq.core.errors import BestOfQError

PYTHON = (3, 11)
DEADLINE = 60.0  # seconds Chromium may take to start and show a page
DISK = 2.0  # GB; the demo's store, pictures and checkpoints take a part of one


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked for and what was found; `fix` is what to do about it, empty where all is well."""

    what: str
    found: str
    fix: str = ""
    required: bool = True

    @property
    def ok(self) -> bool:
        return not self.fix


def run_check(what: str, look: Callable[[], str], fix: str, *, required: bool = True) -> Finding:
    """What `look` found, or why it found nothing and the fix."""
    try:
        return Finding(what=what, found=look(), required=required)
    except (BestOfQError, OSError, subprocess.SubprocessError) as error:
        return Finding(what=what, found=str(error) or f"none in {DEADLINE:g} s", fix=fix, required=required)


def doctor(console: Console, *, webshop: Path | None = None) -> int:
    """Print the table; 0 when all that is required is there, else 1. `webshop`: a folder with WebShop's own files."""
    with console.status("looking around"):
        findings = list(examine(webshop, Path()))
    missing = show_findings(console, findings, "bestofq doctor")
    console.print("All that is required is there." if not missing else f"Required and missing: {len(missing)}.")
    return 1 if missing else 0


def show_findings(console: Console, findings: Iterable[Finding], title: str) -> list[Finding]:
    """Print the table; those that are required and missing."""
    columns = (Column(heading, overflow="fold") for heading in ("", "what", "found", "how to fix it"))
    table = Table(*columns, title=title, title_justify="left")
    missing = []
    for finding in findings:
        bad = "[red]missing[/]" if finding.required else "[yellow]optional[/]"
        sign = "[green]ok[/]" if finding.ok else bad
        table.add_row(sign, *map(escape, (finding.what, finding.found, finding.fix)))
        if finding.required and not finding.ok:
            missing.append(finding)
    console.print(table)
    return missing


def examine(webshop: Path | None, folder: Path) -> Iterator[Finding]:
    """The rows; runs will be stored in `folder`. Parts that need the packages are looked at only where those are."""
    found = ".".join(map(str, sys.version_info[:3]))
    fix = "" if sys.version_info >= PYTHON else "install Python 3.11 or later, then `make clean setup`"
    yield Finding(what="Python", found=f"{found}, {sys.executable}", fix=fix)
    packages = list(_packages())
    yield from packages
    if all(row.ok for row in packages):
        # Not at the top: it imports the very packages that may be missing.
        yield from importlib.import_module("bestofq.cli.checks").examine(webshop)
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
