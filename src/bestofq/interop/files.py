"""The files of a log, record by record. A record that cannot be read is a value, `Malformed`: the others go on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import TextIOWrapper
from json import detect_encoding
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bestofq.core.decision import Episode
from bestofq.core.errors import DataError
from bestofq.core.frozen import reason_of
from bestofq.interop.nouns import json_in

T = TypeVar("T")


class Malformed(NamedTuple):
    """A record that is no episode: where it stands, and why."""

    where: str
    reason: str


Reader = Callable[[Path], Iterable[Episode | Malformed | Mapping[str, Any]]]
"""What reads a log: its episodes one by one, each with an id that does not depend on where the log lies, or without. A
mapping is a record as `jsonl` documents it."""
Parse = Callable[[Any, Path], Episode]  # the episode of one record of a file; its id is empty if the log gives none


def json_lines(path: Path, parse: Parse) -> Iterator[Episode | Malformed]:
    """An episode a line, of a file or of a folder's `*.jsonl`."""
    for file in files_of(path, "*.jsonl"):
        with file.open("rb") as raw, TextIOWrapper(raw, detect_encoding(raw.peek()), "replace") as lines:
            for number, line in enumerate(lines, 1):
                if body := line.strip():
                    where = f"{file.relative_to(path.parent)}, line {number}"
                    record = attempt(where, json_in, body)
                    yield record if isinstance(record, Malformed) else attempt(where, parse, record, file)


def json_files(path: Path, parse: Parse, pattern: str = "*.json", many: str = "") -> Iterator[Episode | Malformed]:
    """An episode a file, or several where the file is a list of them, or holds one by the name `many`."""
    for file in files_of(path, pattern):
        where = f"{file.relative_to(path.parent)}"
        whole = attempt(where, json_in, file.read_bytes())
        some = whole.get(many) if many and isinstance(whole, dict) else whole
        if isinstance(whole, Malformed):
            yield whole
        elif many and isinstance(some, list):
            for number, record in enumerate(some, 1):
                yield attempt(f"{where}, record {number}", parse, record, file)
        else:
            yield attempt(where, parse, whole, file)


def files_of(path: Path, pattern: str) -> list[Path]:
    """The file itself, or those of a folder and the folders in it. DataError if a folder has none."""
    if found := sorted(one for one in path.rglob(pattern) if one.is_file()) if path.is_dir() else [path]:
        return found
    raise DataError(f"{path} holds no {pattern}")


def attempt(where: str, make: Callable[..., T], *arguments: Any) -> T | Malformed:
    """What `make` gives for the arguments, or what is wrong with the record that it reads."""
    try:
        return make(*arguments)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, DataError) as error:
        return Malformed(where, reason_of(error))
