"""Readers by the name of what they read; or one of the user's own."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bestofq.core.decision import Episode
from bestofq.core.errors import BestOfQError, DataError
from bestofq.core.loading import call_object
from bestofq.core.plugins import object_name
from bestofq.interop import atif, browser_use, chat, go_browse, inspect_log, jsonl, open_operator, webvoyager
from bestofq.interop.files import Malformed, Reader

READERS: Mapping[str, Reader] = {
    "jsonl": jsonl.read,
    "browser-use": browser_use.read,
    "atif": atif.read,
    "chat": chat.read,
    "inspect": inspect_log.read,
    "webvoyager": webvoyager.read,
    "open-operator-evals": open_operator.read,
    "go-browse": go_browse.read,
}


def reader_of(kind: str) -> Reader:
    """The reader of that name (`core.plugins`). ConfigError where there is none."""
    return READERS.get(kind) or partial(_own, object_name("reader", kind, READERS))


def _own(name: str, path: Path) -> Iterator[Episode | Malformed | Mapping[str, Any]]:
    """DataError, with the record that it was at, where the user's code fails."""
    number = 1
    try:
        for one in call_object(name, path):
            yield one
            number += 1
    except BestOfQError:
        raise
    except Exception as error:  # whatever it is
        said = f"{type(error).__name__}: {error}"
        raise DataError(f"the reader {name} fails at record {number} of {path} ({said}): correct it there") from error
