"""A disk that loses power: what was not synced is gone, at any moment of what a test does."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Watches a folder. Contents are on disk since `fsync` of their file, names since that of their folder; either may
    be earlier, where the kernel writes by itself. So the folder after a cut is one of two: with the names that were
    synced, or with those of now, each with the content that was synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents: dict[int, bytes] = {}  # by inode
        self._names: dict[Path, int] = {}
        self.sync_all()

    def sync_all(self) -> None:
        for path in self._files():
            self._contents[path.stat().st_ino] = path.read_bytes()
        self._names = self._now()

    def sync(self, path: Path) -> None:
        if path.is_file():
            self._contents[path.stat().st_ino] = path.read_bytes()
        else:
            kept = {name: inode for name, inode in self._names.items() if name.parent != path}
            self._names = kept | {name: inode for name, inode in self._now().items() if name.parent == path}

    def after_a_cut(self, to: Path) -> Iterator[Path]:
        """Copies of the folder as they may be found."""
        for number, names in enumerate((self._names, self._now())):
            for path, inode in names.items():
                copy = to / str(number) / path.relative_to(self._folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(self._contents.get(inode, b""))
            yield to / str(number)

    def _files(self) -> list[Path]:
        return [path for path in self._folder.rglob("*") if path.is_file()]

    def _now(self) -> dict[Path, int]:
        return {path: path.stat().st_ino for path in self._files()}


@contextmanager
def watched(disk: Disk, monkeypatch: pytest.MonkeyPatch, moment: Callable[[], object]) -> Iterator[None]:
    """`moment` is called before and after each sync and each move of a file: where the power may fail."""
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        moment()
        fsync(handle)
        disk.sync(Path(f"/proc/self/fd/{handle}").readlink())
        moment()

    def moved(path: Path, target: Any) -> Path:
        moment()
        found = replace(path, target)
        moment()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", synced)
        patched.setattr(Path, "replace", moved)
        yield
