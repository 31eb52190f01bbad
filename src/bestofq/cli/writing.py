"""What commands put out: results as files; what a model used outside of any episode, in a line."""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from math import isinf, isnan
from pathlib import Path

from bestofq.core.errors import InputError
from bestofq.core.secrets import hidden
from bestofq.core.usage import Usage, merge_usage
from bestofq.rollouts.console import console


def write_json(path: Path, result: Mapping[str, object]) -> None:
    """Indented, with a line break at the end. JSON has no NaN and no infinity: null, and "Infinity" as in tables."""
    path.write_text(json.dumps(hidden(_known(result)), indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def check_out(*paths: Path | None) -> None:
    """Before long work: InputError where a file cannot be written there afterwards. Makes nothing that stays."""
    for path in paths:
        if path is None:
            continue
        folder = next(one for one in (path.parent, *path.absolute().parents) if one.exists())
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a file")
        if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise InputError(f"{path} cannot be written: give a path below a folder that can")


def check_folder(path: Path | None) -> None:
    """Before long work: InputError where no folder can be, or be made. Makes nothing."""
    there = None if path is None else next(one for one in (path, *path.absolute().parents) if one.exists())
    if there is not None and not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"{path} can be no folder, as {there} is a file or cannot be written: give another")


def write_out(path: Path, result: str | Mapping[str, object]) -> None:
    """A text (SVG as PNG or PDF where the file ends so), or a result as JSON, in a folder that is made where there is
    none; and a line that says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(result, str):
        write_json(path, result)
    elif path.suffix in (".png", ".pdf"):
        draw({path: result})
    else:
        path.write_text(result, "utf-8")
    console.print(f"written: {path}")


def draw(pictures: Mapping[Path, str]) -> None:
    """SVG as PNG or PDF, by the files' endings."""
    from bestofq.browser.picture import save_pictures  # loads a browser's driver, which nothing else here needs

    asyncio.run(save_pictures(pictures.items()))


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


def spending_lines(usage: Iterable[Usage], who: str | None = None) -> Iterator[str]:
    """A sentence for each role, by its name or as `who`, with its price and its replies that could not be used."""
    for used in merge_usage(usage):
        price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
        lost = f"; {used.unusable:,} of its {used.calls:,} replies named no candidate" if used.unusable else ""
        reader = who or f"the {used.role}"
        yield f"{reader} read {used.tokens_in:,} tokens and wrote {used.tokens_out:,} ({price}){lost}"


def print_spending(usage: Iterable[Usage], who: str | None = None) -> None:
    for line in spending_lines(usage, who):
        console.print(line)


def known_usd(usage: Iterable[Usage]) -> float | None:
    """What it cost; None where no tokens were used, or some have a price that is not known."""
    prices = [used.usd for used in merge_usage(usage) if used.tokens_in or used.tokens_out]
    known = [price for price in prices if price is not None]
    return sum(known) if known and len(known) == len(prices) else None
