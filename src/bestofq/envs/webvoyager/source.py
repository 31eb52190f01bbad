"""WebVoyager's files: a task a line, `{"web_name": …, "id": …, "ques": …, "web": …}`.

The published list has 643 tasks, the patched one that the paper uses 590 (Best-of-Q, 4.1). Neither is part of this
package.
"""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel


class Entry(FrozenModel, extra="ignore"):
    """A line of the file; its fields have the file's names."""

    web_name: str = Field(min_length=1, description="the domain, as in Tables 5 to 8")
    id: str = Field(min_length=1)
    ques: str = Field(min_length=1)
    web: str = Field(description="start URL")

    @property
    def key(self) -> str:
        """`Allrecipes--0`: the id as published, after the domain."""
        return self.id if self.id.startswith(f"{self.web_name}--") else f"{self.web_name}--{self.id}"


def load_entries(path: Path) -> list[Entry]:
    """The tasks of a file, in its order, without blank lines. DataError with the line and what is wrong."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): give one of WebVoyager's files") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: give one of WebVoyager's files") from error
    found: list[Entry] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = _entry(line, f"{path}, line {number}")
        if entry.key in line_of:
            raise DataError(f"{path}, line {number}: the id {entry.key!r} is in line {line_of[entry.key]} already")
        line_of[entry.key] = number
        found.append(entry)
    if not found:
        raise DataError(f"{path} holds 0 tasks, at least 1 is needed: give WebVoyager's jsonl file")
    return found


def is_address(text: str) -> bool:
    """Whether a browser can begin at this address: http or https, and a host."""
    try:
        address = urlsplit(text)
        return address.scheme in ("http", "https") and address.hostname is not None
    except ValueError:
        return False


def _entry(line: str, where: str) -> Entry:
    try:
        entry = Entry.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise DataError(f"{where}: {field}: {first['msg']}") from error
    if not is_address(entry.web):
        raise DataError(f"{where}: web is {entry.web!r}: it must be an address with http:// or https://")
    return entry
