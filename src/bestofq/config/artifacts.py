"""Finished work on disk: a folder with `identity.json` (what the work depends on) and `done`."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.core.files import whole_file
from bestofq.core.identity import as_set, differences

IDENTITY, DONE = "identity.json", "done"
UNFINISHED = ".training"
"""In an artifact's folder: the last checkpoint of its unfinished training."""


def is_done(
    folder: Path,
    identity: Mapping[str, JsonValue],
    *,
    again: bool = False,
    advice: str = "give another folder, or delete this one",
) -> bool:
    """Return whether `folder` holds the finished artifact of `identity`; claim a folder that has no identity.

    With `again` the artifact counts as unfinished, and a checkpoint of another identity is deleted. Raise DataError,
    without `again`, if the folder belongs to another identity.
    """
    card, now = folder / IDENTITY, json.loads(json.dumps(identity))
    before = json.loads(card.read_text("utf-8")) if card.exists() else None
    changed = [] if before is None else differences(before, now)
    if changed and not again:
        changes = ", ".join(f"{name}={as_set(old)} (now {as_set(new)})" for name, old, new in changed[:3])
        more = f", {len(changed) - 3} more settings" if len(changed) > 3 else ""
        raise DataError(f"{folder} was made with {changes}{more}: {advice}")
    if again:
        if changed or (folder / DONE).exists():
            shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        (folder / DONE).unlink(missing_ok=True)
    if changed or before is None:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(card) as part:
            part.write(json.dumps(now, indent=1).encode())
    return (folder / DONE).exists()


def set_done(folder: Path) -> None:
    """Mark the artifact in `folder` as finished."""
    (folder / DONE).touch()
