"""Results as a file."""

import json
from collections.abc import Mapping
from math import isinf, isnan
from pathlib import Path


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
