"""Pictures by their content: one file a distinct picture, written whole or not at all."""

import hashlib
import os
import re
from pathlib import Path

from bestofq.core.errors import DataError
from bestofq.core.observation import Screenshot

_ENDINGS = {"image/jpeg": "jpg", "image/webp": "webp", "image/png": "png"}
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(_ENDINGS.values())})")


class Screenshots:
    """A folder with `ab/abcd….jpg` for each picture; 256 subfolders by the first byte of the hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, screenshot: Screenshot) -> Path:
        name = screenshot.sha256
        return self.folder / name[:2] / f"{name}.{_ENDINGS[screenshot.media_type]}"

    def named(self, name: str) -> Path | None:
        """The file of a name as `path` gives it; None where the folder does not hold it."""
        path = self.folder / name[:2] / name
        return path if _NAME.fullmatch(name) and path.is_file() else None

    def save(self, screenshot: Screenshot) -> None:
        """Keep the picture unless it is there already. DataError when its bytes are not what its hash says."""
        path = self.path(screenshot)
        if path.exists():
            return
        if (found := hashlib.sha256(screenshot.data).hexdigest()) != screenshot.sha256:
            raise DataError(f"screenshot {screenshot.sha256[:12]} holds {len(screenshot.data)} bytes of {found[:12]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        draft.write_bytes(screenshot.data)
        draft.replace(path)

    def load(self, screenshot: Screenshot) -> Screenshot:
        """The same screenshot with its bytes. DataError when the folder does not hold it."""
        try:
            data = self.path(screenshot).read_bytes()
        except FileNotFoundError:
            raise DataError(f"{self.folder} holds no screenshot {screenshot.sha256[:12]}") from None
        return screenshot.model_copy(update={"data": data})
