"""Pictures by their content: one file a distinct picture, written whole or not at all."""

import hashlib
import re
from contextlib import suppress
from pathlib import PurePosixPath

from bestofq.core.errors import DamageError, DataError
from bestofq.core.observation import Screenshot
from bestofq.store.files import Files

_FOLDER = PurePosixPath("screenshots")
_ENDINGS = {"image/jpeg": "jpg", "image/webp": "webp", "image/png": "png"}
_MEDIA_TYPES = {ending: media_type for media_type, ending in _ENDINGS.items()}
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(_ENDINGS.values())})")


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
