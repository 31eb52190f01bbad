"""Pictures by their content: one file a distinct picture, written whole or not at all."""

import hashlib
import re
from pathlib import Path

from bestofq.core.errors import DamageError, DataError
from bestofq.core.files import whole_file
from bestofq.core.observation import Screenshot

_ENDINGS = {"image/jpeg": "jpg", "image/webp": "webp", "image/png": "png"}
_MEDIA_TYPES = {ending: media_type for media_type, ending in _ENDINGS.items()}
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(_ENDINGS.values())})")


class Screenshots:
    """A folder with `ab/abcd….jpg` for each picture; 256 subfolders by the first byte of the hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, screenshot: Screenshot) -> Path:
        name = screenshot.sha256
        return self.folder / name[:2] / f"{name}.{_ENDINGS[screenshot.media_type]}"

    def named(self, name: str) -> tuple[bytes, str] | None:
        """Bytes and media type of the file of a name as `path` gives it; None where there is none. DamageError."""
        path = self.folder / name[:2] / name
        if not _NAME.fullmatch(name) or not path.is_file():
            return None
        return self._read(path), _MEDIA_TYPES[path.suffix[1:]]

    def save(self, screenshot: Screenshot) -> None:
        """Keep the picture, on disk once this returns, unless as many bytes are there already. DataError when its bytes
        are not what its hash says."""
        path = self.path(screenshot)
        if path.exists() and path.stat().st_size == len(screenshot.data):
            return
        if (found := hashlib.sha256(screenshot.data).hexdigest()) != screenshot.sha256:
            raise DataError(f"screenshot {screenshot.sha256[:12]} holds {len(screenshot.data)} bytes of {found[:12]}")
        with whole_file(path) as file:
            file.write(screenshot.data)

    def load(self, screenshot: Screenshot) -> Screenshot:
        """The same screenshot with its bytes. DataError when the folder does not hold it, DamageError."""
        try:
            data = self._read(self.path(screenshot))
        except FileNotFoundError:
            raise DataError(f"{self.folder} holds no screenshot {screenshot.sha256[:12]}") from None
        return screenshot.model_copy(update={"data": data})

    def _read(self, path: Path) -> bytes:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise DamageError(
                f"the picture {path} is not what was written: `bestofq doctor --store {self.folder.parent}` says what "
                "is lost and what can be recovered"
            )
        return data
