"""Finished work on disk: a folder with `identity.json` (what the work depends on) and `done`."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.core.files import whole_file
from bestofq.core.identity import Difference, as_set, differences

IDENTITY, DONE = "identity.json", "done"
UNFINISHED = ".training"  # the last checkpoint of a training that has not ended


def is_done(folder: Path, identity: Mapping[str, JsonValue], *, advice: str = "give another folder") -> bool:
    """Return whether `folder` holds the finished artifact of `identity`; raise DataError if it holds another's."""
    if changed := _changes(folder, identity):
        changes = ", ".join(f"{name}={as_set(old)} (now {as_set(new)})" for name, old, new in changed[:3])
        more = f", {len(changed) - 3} more settings" if len(changed) > 3 else ""
        raise DataError(f"{folder} was made with {changes}{more}: {advice}")
    return (folder / DONE).exists()


def set_begun(folder: Path, identity: Mapping[str, JsonValue]) -> None:
    """Make `folder` the unfinished artifact of `identity`; the unfinished training of another identity is deleted."""
    if _changes(folder, identity) or (folder / DONE).exists():
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    (folder / DONE).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / IDENTITY) as part:
        part.write(json.dumps(identity, indent=1).encode())


def set_done(folder: Path) -> None:
    """Mark the artifact in `folder` as finished."""
    (folder / DONE).touch()


def _changes(folder: Path, identity: Mapping[str, JsonValue]) -> list[Difference]:
    card = folder / IDENTITY
    return differences(json.loads(card.read_text("utf-8")), json.loads(json.dumps(identity))) if card.exists() else []
