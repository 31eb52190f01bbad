"""One row of the doctor's table."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked for and what was found; `mend` is what to do about it, empty where all is well."""

    what: str
    found: str
    mend: str = ""
    required: bool = True

    @property
    def ok(self) -> bool:
        return not self.mend

    @property
    def sign(self) -> str:
        """Rich markup."""
        if self.ok:
            return "[green]ok[/]"
        return "[red]missing[/]" if self.required else "[yellow]optional[/]"
