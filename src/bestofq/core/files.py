"""Files that are there whole or not at all, after a kill and after a power cut."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write in the place of `path`, which stays as it is until the end, and where the writing fails.

    With `sync` it is on disk before it has its name, and that before this ends: what is written later may rely on it.
    """
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if sync:
        sync_folder(path.parent)


def write_whole(path: Path, content: bytes | str, *, sync: bool = True) -> None:
    """Write a `whole_file`, a text as UTF-8. What is no file, such as /dev/stdout, is written to as it is."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    with whole_file(path.resolve(), sync=sync) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
