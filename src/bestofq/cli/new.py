"""`bestofq new`: a package with a part of your own, which every command finds by name once it is installed."""

import keyword
import sys
from importlib.resources import files
from pathlib import Path
from typing import Literal

from bestofq.cli.options import console
from bestofq.core.errors import InputError

NewKind = Literal["suite", "scorer", "learner"]
MAKES = {"suite": "make_suite", "scorer": "make_scorer", "learner": "learn"}
USED = {
    "suite": "bestofq eval {} --agents random --runs 1",
    "scorer": "bestofq eval webshop --agents prompting,own --set scorer={}",
    "learner": "bestofq train --set iql.learner={}",
}


def new_part(kind: NewKind, name: str, out: Path | None) -> None:
    """Write the package. InputError where Python knows no such name, or the folder is there."""
    if not name.isidentifier() or keyword.iskeyword(name) or name in {*sys.stdlib_module_names, "bestofq"}:
        raise InputError(f"{name!r} cannot name a module of yours: take letters, digits and _, such as my_{kind}")
    folder = out or Path(name)
    if folder.exists():
        raise InputError(f"{folder} is there already: give another --out, or remove it")
    texts = files("bestofq.cli") / "new_part"
    for file, text in {
        "pyproject.toml": "pyproject",
        f"{name}.py": kind,
        "tests/test_contract.py": f"test_{kind}",
    }.items():
        said = (texts / f"{text}.txt").read_text("utf-8")
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said.replace("NAME", name).replace("KIND", kind).replace("MAKE", MAKES[kind]), "utf-8")
    console.print(
        f"{folder}: {name}.py, and a test that it keeps to what every {kind} promises.\n"
        f"  cd {folder}; pip install -e . pytest; pytest\n  {USED[kind].format(name)}",
        highlight=False,
        markup=False,
    )
