"""`bestofq study`: a question about Best-of-Q answered by arms that differ in a few settings, as files to commit."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestofq.cli.config import config_of, merged, read_tree
from bestofq.cli.experiment import made_by
from bestofq.cli.writing import write_json
from bestofq.core.errors import ConfigError
from bestofq.recipes.settings import BestOfQSettings
from bestofq.recipes.study import Arm, Bench, Data, Measured, Setup, Study
from bestofq.reports.study import results_of, study_pictures, study_table


def study(
    file: Annotated[Path, typer.Argument(help="TOML file of a study.")],
    out: Annotated[Path, typer.Option(help="Folder of episodes and Q-functions; studies may share it.")] = Path(
        "runs/studies"
    ),
    results: Annotated[Path | None, typer.Option(help="Folder of the results; none: the file's own.")] = None,
) -> None:
    """Learn, rank and play with settings that differ in one thing, and compare. Resumable."""
    console = Console()
    chosen, setups = read_study(file)
    console.print(f"{chosen.title}: about {chosen.minutes} minutes on two cores")
    measured = asyncio.run(_measure(chosen, setups, out, console))
    found = results_of(measured)
    table = study_table(chosen.title, found)
    folder = results or file.parent
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        **made_by(setups[0].learning),
        "study": chosen.model_dump(mode="json"),
        "arms": [row.model_dump(mode="json") for row in found],
    }
    write_json(folder / "result.json", result)
    (folder / "table.md").write_text(table.to_markdown(), "utf-8")
    for name, picture in study_pictures(chosen.title, found).items():
        (folder / name).write_text(picture, "utf-8")
    console.print(table)
    console.print(f"written: {folder / 'result.json'}")


def read_study(file: Path) -> tuple[Study, list[Setup]]:
    """A study with the settings of its arms. ConfigError on what is not understood, or cannot be compared."""
    tree = read_tree(file)
    try:
        chosen = config_of(Study, tree)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    base = merged(read_tree(file.parent / chosen.config), chosen.set)
    return chosen, [_setup(chosen, arm, base) for arm in chosen.arm]


def _setup(chosen: Study, arm: Arm, base: dict[str, object]) -> Setup:
    try:
        collecting = merged(base, arm.collect)
        learning = merged(collecting, arm.learn)
        data = config_of(Data, merged(chosen.data.model_dump(), arm.data))
        own = config_of(BestOfQSettings, collecting) if arm.collect else None
        learned, acting = (config_of(BestOfQSettings, tree) for tree in (learning, merged(learning, arm.act)))
    except ConfigError as error:
        raise ConfigError(f"The arm {arm.name!r}: {error}") from error
    return Setup(arm=arm, data=data, collecting=own, learning=learned, acting=acting)


async def _measure(chosen: Study, setups: Sequence[Setup], out: Path, console: Console) -> list[Measured]:
    with Bench(chosen, out, console) as bench:
        return [await bench.measure(setup) for setup in setups]
