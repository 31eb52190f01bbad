"""Where a store is, as `--store` and `--files` say it. Loads no database."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from bestofq.core.errors import ConfigError, DataError
from bestofq.core.secrets import keep_secrets_of

_FILE = "store.sqlite"


@dataclass(frozen=True)
class Location:
    """A folder that holds all of a store; or a database's address, with a folder or `s3://bucket/prefix` for the files.
    As text, it is what follows `--store`."""

    name: str
    files: str | None = None

    @classmethod
    def of(cls, where: "Location | Path | str", files: Path | str | None = None) -> Self:
        """Hide the address's password from now on. ConfigError on `files` for a folder, or an unknown address."""
        name, known = (where.name, where.files) if isinstance(where, Location) else (str(where), None)
        if not name.strip():
            raise ConfigError("--store is empty: give a folder, or leave it out")
        found = cls(name, known if files is None else str(files))
        if not found.is_folder:  # a user without a password is no secret
            keep_secrets_of(re.sub("://[^:/?#@]*@", "://", found.name, count=1))
        if found.files is not None and found.is_folder:
            raise ConfigError(f"--files {files} has no effect: the folder {where} holds its files itself, leave it out")
        if not found.is_folder and not re.match(r"(postgresql|sqlite)(\+\w+)?://(?!\[[^\]]*$)", found.name):
            raise ConfigError(
                f"--store {found.name}: a store is a folder, or postgresql+psycopg://user@host/database with --files"
            )
        return found

    @property
    def is_folder(self) -> bool:
        return "://" not in self.name

    @property
    def database(self) -> Path:
        return Path(self.name) / _FILE

    @property
    def where_files_are(self) -> str:
        """The folder or bucket of pictures and vectors. DataError without `files`."""
        if self.is_folder:
            return self.name
        if self.files is None:
            raise DataError(f"{self.name} holds no pictures: give --files, a folder or s3://bucket/prefix for them")
        return self.files

    @property
    def folder(self) -> Path:
        if self.is_folder:
            return Path(self.name)
        local = self.files is not None and "://" not in self.files
        return Path(self.files or "") if local else Path("runs") / Path(urlsplit(self.name).path).name

    @property
    def exists(self) -> bool:
        """False for a folder without a database. Other databases are not asked."""
        return not self.is_folder or self.database.exists()

    def check_exists(self) -> None:
        """Raise DataError if this is a folder without a database."""
        if not self.exists:
            raise DataError(f"{self} holds no bestofq store: collect episodes into it first")

    @property
    def title(self) -> str:
        """Short, for people: the last two names of a folder's path, or the address without user and password."""
        if self.is_folder:
            return "/".join(self.folder.resolve().parts[-2:])
        address = urlsplit(self.name)
        return f"{address.hostname or ''}{address.path}"

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def __str__(self) -> str:
        return self.name if self.files is None else f"{self.name} --files {self.files}"
