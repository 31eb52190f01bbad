"""The files of a log, record by record. A record that cannot be read is a value, `Malformed`: the others go on."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
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
"""What reads a log: its episodes one by one, each with an id that does not depend on where the log lies. A mapping is a
record as `jsonl` documents it."""
Parse = Callable[[Any, Path], Episode]
"""The episode of one record of a file. Its id is empty if the log gives none."""


def json_lines(path: Path, parse: Parse) -> Iterator[Episode | Malformed]:
    """An episode a line, of a file or of a folder's `*.jsonl`."""
    named = Naming()
    for file in files_of(path, "*.jsonl"):
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if body := line.strip():
                    yield named.read(f"{file.name}, line {number}", body, file, parse)


def json_files(path: Path, parse: Parse, pattern: str = "*.json", many: str = "") -> Iterator[Episode | Malformed]:
    """An episode a file, or several where the file is a list of them, or holds one by the name `many`."""
    named = Naming()
    for file in files_of(path, pattern):
        whole = attempt(file.name, partial(json_in, file.read_bytes()))
        some = whole.get(many) if many and isinstance(whole, dict) else whole
        if isinstance(whole, Malformed):
            yield whole
        elif many and isinstance(some, list):
            for number, record in enumerate(some, 1):
                yield named.read(f"{file.name}, record {number}", record, file, parse)
        else:
            yield named.read(file.name, whole, file, parse)


def files_of(path: Path, pattern: str) -> list[Path]:
    """The file itself, or those of a folder and the folders in it. DataError if a folder has none."""
    if found := sorted(one for one in path.rglob(pattern) if one.is_file()) if path.is_dir() else [path]:
        return found
    raise DataError(f"{path} holds no {pattern}")


class Naming:
    """Gives episodes without an id one of their record's content; of equal records each has its own."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def read(self, where: str, record: Any, file: Path, parse: Parse) -> Episode | Malformed:
        """The episode of a record of `file`; of one that is still JSON, too."""
        encoded = isinstance(record, bytes)
        episode = attempt(where, lambda: parse(json_in(record) if encoded else record, file))
        if isinstance(episode, Malformed) or episode.id:
            return episode
        body = record if encoded else json.dumps(record, sort_keys=True, default=str).encode()
        content = hashlib.sha256(body).hexdigest()[:24]
        self._seen[content] += 1
        return episode.model_copy(update={"id": f"{content}-{self._seen[content]}"})


def attempt(where: str, make: Callable[[], T]) -> T | Malformed:
    """What `make` gives, or what is wrong with the record that it reads."""
    try:
        return make()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, DataError) as error:
        return Malformed(where, reason_of(error))
