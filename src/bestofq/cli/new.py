"""Write a package with a part of your own and a test of it; once installed, every command takes it by name."""

import keyword
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from bestofq.cli.options import Place
from bestofq.core.errors import InputError
from bestofq.rollouts.console import console

USED = {
    "suite": "bestofq eval {} --agents random --runs 1",
    "scorer": "bestofq eval webshop --agents prompting,own --set scorer={}",
}


def new(
    kind: Annotated[Literal["suite", "scorer"], Argument(metavar="KIND", help="suite or scorer.")],
    name: Annotated[str, Argument(metavar="NAME", help="Of the package, and by which commands find it.")],
    out: Annotated[Place, Option(help="Its folder. Default: NAME.")] = None,
) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name in {*sys.stdlib_module_names, "bestofq"}:
        raise InputError(f"{name!r} cannot name a module of yours: take letters, digits and _, such as my_{kind}")
    folder = out or Path(name)
    if folder.exists():
        raise InputError(f"{folder} is there already: give another --out, or remove it")
    templates = {"pyproject.toml": "pyproject", f"{name}.py": kind, "tests/test_contract.py": f"test_{kind}"}
    for file, template in templates.items():
        text = (files("bestofq.cli") / "new_part" / f"{template}.txt").read_text("utf-8")
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NAME", name).replace("KIND", kind).replace("MAKE", f"make_{kind}"), "utf-8")
    console.print(
        f"{folder}: {name}.py, and a test that it keeps to what every {kind} promises.\n"
        f"  cd {folder}; pip install -e . pytest; pytest\n  {USED[kind].format(name)}",
        highlight=False,
        markup=False,
    )
