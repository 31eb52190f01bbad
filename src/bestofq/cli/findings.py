"""What a check found, and the table of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Column, Table

from bestofq.rollouts.console import console


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was checked and what was found. `fix` says what to do; it is empty if all is well."""

    what: str
    found: str
    fix: str = ""
    required: bool = True

    @property
    def ok(self) -> bool:
        return not self.fix


def show_findings(findings: Iterable[Finding], title: str) -> list[Finding]:
    """Print the table; return those that are required and missing."""
    columns = (Column(heading, overflow="fold") for heading in ("", "what", "found", "how to fix it"))
    table = Table(*columns, title=title, title_justify="left")
    findings = [*findings]
    for finding in findings:
        bad = "[red]missing[/]" if finding.required else "[yellow]optional[/]"
        table.add_row("[green]ok[/]" if finding.ok else bad, *map(escape, (finding.what, finding.found, finding.fix)))
    console.print(table)
    return [finding for finding in findings if finding.required and not finding.ok]
