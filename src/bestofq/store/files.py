"""Whole files by name, each written once: in a folder, or in an object store such as S3. Pictures by their content."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from bestofq.core.errors import ConfigError, DamageError, DataError, SetupError
from bestofq.core.files import write_whole
from bestofq.core.loading import extra
from bestofq.core.observation import Screenshot

_FOLDER = PurePosixPath("screenshots")
_ENDINGS = {"image/jpeg": "jpg", "image/webp": "webp", "image/png": "png"}
_MEDIA_TYPES = {ending: media_type for media_type, ending in _ENDINGS.items()}
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(_ENDINGS.values())})")


class Folder:
    """Files below a folder. Names are paths with `/`, and tell the contents: a file that is there is never another."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, data: bytes) -> None:
        """Return once it is on disk. A file of as many bytes is left as it is. DataError if the folder is gone."""
        path = self.root / name
        if not self.root.is_dir():
            raise DataError(f"{self.root} was deleted or moved: put it back, then run the same command again")
        if not path.exists() or path.stat().st_size != len(data):
            write_whole(path, data)

    def get(self, name: str) -> bytes:
        """FileNotFoundError."""
        return (self.root / name).read_bytes()

    def has(self, name: str) -> bool:
        return (self.root / name).is_file()

    def set_aside(self, name: str) -> None:
        """Rename a damaged file, so that its name is free, to the name with `.damaged`."""
        path = self.root / name
        path.replace(path.with_name(f"{path.name}.damaged"))

    def __str__(self) -> str:
        return str(self.root)


class Objects:
    """The same, as objects below a bucket's prefix. Keys and endpoint come from the usual `AWS_…` variables."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._api = extra("obstore")
        try:
            self._bucket = extra("obstore.store").from_url(where, client_options={"allow_http": True})
        except (ValueError, extra("obstore.exceptions").BaseError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"--files {where}: {reason}: give a folder, or s3://bucket/prefix") from error

    def put(self, name: str, data: bytes) -> None:
        with self._sentence():
            try:
                self._api.put(self._bucket, name, data, mode="create")
            except extra("obstore.exceptions").AlreadyExistsError:
                if self._api.head(self._bucket, name)["size"] != len(data):
                    self._api.put(self._bucket, name, data)
            except FileNotFoundError:
                raise SetupError(f"{self.where} is in a bucket that does not exist: make it, or give another") from None

    def get(self, name: str) -> bytes:
        with self._sentence():
            return bytes(self._api.get(self._bucket, name).bytes())

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


Files = Folder | Objects


def open_files(where: str) -> Files:
    """Open a folder, or `s3://bucket/prefix`. SetupError without the package for it."""
    return Objects(where) if "://" in where else Folder(Path(where))


class Screenshots:
    """Files `screenshots/ab/abcd….jpg`, one for each picture, in 256 folders by the first byte of the hash."""

    def __init__(self, files: Files, store: object) -> None:
        self._files = files
        self._store = store

    def path(self, screenshot: Screenshot) -> PurePosixPath:
        """Below the folder or prefix of the files."""
        name = screenshot.sha256
        return _FOLDER / name[:2] / f"{name}.{_ENDINGS[screenshot.media_type]}"

    def has(self, screenshot: Screenshot) -> bool:
        """Whether there is a file for it, whatever it holds."""
        return self._files.has(str(self.path(screenshot)))

    def find_picture(self, name: str) -> tuple[bytes, str] | None:
        """Return the bytes and the media type of a file by its name, or None. DamageError."""
        path = _FOLDER / name[:2] / name
        with suppress(FileNotFoundError):
            if _NAME.fullmatch(name):
                return self._read(path), _MEDIA_TYPES[path.suffix[1:]]
        return None

    def save(self, screenshot: Screenshot) -> None:
        """Write the picture to disk, unless as many bytes are there. DataError if its bytes do not have its hash."""
        if (found := hashlib.sha256(screenshot.data).hexdigest()) != screenshot.sha256:
            raise DataError(f"screenshot {screenshot.sha256[:12]} holds {len(screenshot.data)} bytes of {found[:12]}")
        self._files.put(str(self.path(screenshot)), screenshot.data)

    def load(self, screenshot: Screenshot) -> Screenshot:
        """Return the screenshot with its bytes. DataError if the files do not hold it, DamageError."""
        try:
            data = self._read(self.path(screenshot))
        except FileNotFoundError:
            raise DataError(f"{self._files} holds no screenshot {screenshot.sha256[:12]}") from None
        return screenshot.model_copy(update={"data": data})

    def _read(self, path: PurePosixPath) -> bytes:
        data = self._files.get(str(path))
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise DamageError.of(f"the picture {path} in {self._files}", self._store)
        return data
