"""Readers by the name of what they read; or one of the user's own."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bestofq.core.decision import Episode
from bestofq.core.errors import ConfigError
from bestofq.core.loading import call_object
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
    """The reader of that name, or the user's own as `my_package.my_module:reader`. ConfigError where there is none."""
    if ":" in kind:
        return partial(_own, kind)
    if kind not in READERS:
        raise ConfigError(f"there is no kind of log {kind!r}: it is one of {', '.join(READERS)}, or my_module:reader")
    return READERS[kind]


def _own(name: str, path: Path) -> Iterable[Episode | Malformed | Mapping[str, Any]]:
    found: Iterable[Episode | Malformed | Mapping[str, Any]] = call_object(name, path)
    return found
