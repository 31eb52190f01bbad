"""Files that are there whole or not at all, after a kill and after a power cut."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write in the place of `path`, which stays as it is until the end, and where the writing fails.

    On disk before it has its name, and its name on disk before this ends: what is written later may rely on it.
    """
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
