"""Whole files by name, each written once: in a folder, or in an object store such as S3."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bestofq.core.errors import SetupError
from bestofq.core.files import whole_file
from bestofq.core.loading import extra


class Files(Protocol):
    """Names are paths with `/`, and tell the contents: a file that is there already is the same one."""

    def put(self, name: str, data: bytes) -> None:
        """There, and on disk, once this returns; one of as many bytes is left as it is."""

    def get(self, name: str) -> bytes:
        """FileNotFoundError."""

    def ranges(self, name: str, starts: Sequence[int], size: int) -> list[bytes]:
        """`size` bytes from each of these places. FileNotFoundError."""

    def has(self, name: str) -> bool: ...

    def set_aside(self, name: str) -> None:
        """Rename a damaged file, so that its name is free, to the name with `.damaged`."""


def open_files(where: str) -> Files:
    """Open a folder, or `s3://bucket/prefix`. SetupError without the package for it."""
    return Objects(where) if "://" in where else Folder(Path(where))


class Folder:
    """Files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        if path.exists() and path.stat().st_size == len(data):
            return
        with whole_file(path) as file:
            file.write(data)

    def get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def ranges(self, name: str, starts: Sequence[int], size: int) -> list[bytes]:
        with (self.root / name).open("rb") as file:
            return [os.pread(file.fileno(), size, start) for start in starts]

    def has(self, name: str) -> bool:
        return (self.root / name).is_file()

    def set_aside(self, name: str) -> None:
        path = self.root / name
        path.replace(path.with_name(f"{path.name}.damaged"))

    def __str__(self) -> str:
        return str(self.root)


class Objects:
    """Objects below a prefix of a bucket, by obstore: keys and endpoint come from the usual `AWS_…` variables."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._api = extra("obstore")
        with self._sentence():
            self._bucket = extra("obstore.store").from_url(where, client_options={"allow_http": True})

    def put(self, name: str, data: bytes) -> None:
        errors = extra("obstore.exceptions")
        with self._sentence():
            try:
                self._api.put(self._bucket, name, data, mode="create")
            except errors.AlreadyExistsError:
                if self._api.head(self._bucket, name)["size"] != len(data):
                    self._api.put(self._bucket, name, data)
            except FileNotFoundError:
                raise SetupError(f"{self.where} is in a bucket that does not exist: make it, or give another") from None

    def get(self, name: str) -> bytes:
        with self._sentence():
            return bytes(self._api.get(self._bucket, name).bytes())

    def ranges(self, name: str, starts: Sequence[int], size: int) -> list[bytes]:
        with self._sentence():
            return [*map(bytes, self._api.get_ranges(self._bucket, name, starts=starts, lengths=[size] * len(starts)))]

    def has(self, name: str) -> bool:
        with self._sentence():
            try:
                return bool(self._api.head(self._bucket, name))
            except FileNotFoundError:
                return False

    def set_aside(self, name: str) -> None:
        with self._sentence():
            self._api.rename(self._bucket, name, f"{name}.damaged")

    @contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except extra("obstore.exceptions").BaseError as error:
            reason = str(error).partition("\n")[0]
            raise SetupError(
                f"{self.where} cannot be reached ({reason}): check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                "AWS_ENDPOINT_URL, then run the same command again"
            ) from error

    def __str__(self) -> str:
        return self.where
