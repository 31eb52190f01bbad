"""What commands put out: results as files; what a model used outside of any episode, in a line."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic_core import to_json

from bestofq.core.errors import InputError
from bestofq.core.files import write_whole
from bestofq.core.secrets import hidden
from bestofq.core.usage import Usage, merge_usage
from bestofq.rollouts.console import console


def write_json(path: Path, result: Mapping[str, object]) -> None:
    """Indented, with a line break at the end. JSON has no NaN and no infinity: null."""
    write_whole(path, to_json(hidden(result), indent=1, inf_nan_mode="null") + b"\n")


def check_out(*paths: Path | None) -> None:
    """Check before long work that files can be written there afterwards. InputError. Makes nothing that stays."""
    for path in filter(None, paths):
        folder = find_place(path.parent)
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a file")
        if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise InputError(f"{path} cannot be written: give a path below a folder that can")


def check_folder(path: Path | None) -> None:
    """Check before long work that a folder is there or can be made. InputError. Makes nothing."""
    if path is not None and not ((there := find_place(path)).is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"{path} cannot be a folder: {there} is a file or cannot be written to; give another")


def find_place(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def write_out(path: Path, result: str | Mapping[str, object]) -> None:
    if isinstance(result, str):
        write_whole(path, result)
    else:
        write_json(path, result)
    console.print(f"written: {path}")


def usage_lines(usage: Iterable[Usage], who: str | None = None) -> Iterator[str]:
    """A sentence for each role, by its name or as `who`, with its price and its replies that could not be used."""
    for used in merge_usage(usage):
        price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
        lost = f"; {used.unusable:,} of its {used.calls:,} replies named no candidate" if used.unusable else ""
        reader = who or f"the {used.role}"
        yield f"{reader} read {used.tokens_in:,} tokens and wrote {used.tokens_out:,} ({price}){lost}"


def print_usage(usage: Iterable[Usage], who: str | None = None) -> None:
    for line in usage_lines(usage, who):
        console.print(line)
