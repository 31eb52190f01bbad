"""Options that several commands share. Importing this loads no model."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="One setting, a.b=c; may be given again.")]
Folder = Annotated[Path, typer.Option("--store", help="Folder of the episodes.")]
RUNS = Path("runs/webshop")
