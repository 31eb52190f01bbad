"""Results as a file, and room for them."""

import json
import shutil
from collections.abc import Mapping
from math import isinf, isnan
from pathlib import Path

from bestofq.core.errors import InputError


def write_json(path: Path, result: Mapping[str, object]) -> None:
    """Indented, with a line break at the end. JSON has no NaN and no infinity: null, and "Infinity" as in tables."""
    path.write_text(json.dumps(_known(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def _known(value: object) -> object:
    match value:
        case float() if isnan(value):
            return None
        case float() if isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: _known(one) for name, one in value.items()}
        case list() | tuple():
            return [*map(_known, value)]
        case _:
            return value


def make_room(out: Path) -> None:
    """Remove an earlier demo. InputError where the folder holds something else."""
    if out.exists():
        if not (out / "store.sqlite").exists() and any(out.iterdir()):
            raise InputError(f"{out} holds something that is no demo: give --out another folder")
        shutil.rmtree(out)
