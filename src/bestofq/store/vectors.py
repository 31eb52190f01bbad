"""Vectors by what they were made of: (EmbedSpec.hash, EmbedItem.key) → float32 [D].

They are rows until there are `ROWS` of one spec. Then these move into shards: safetensors files, stored with the
pictures, named by their hashes and never changed. A short row names the file and the place of each vector.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, groupby
from typing import Any

import numpy as np
from safetensors.numpy import save
from sqlalchemy import Connection, Engine, delete, func, select

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.transitions import Floats
from bestofq.store.database import damage_error, insert_new, rows_of, verify_rows
from bestofq.store.files import Files
from bestofq.store.schema import SHARDS, VECTORS, add_checksum
from bestofq.store.writer import Writer

ROWS, A_SHARD = 1_000_000, 65_536
_KEYS_A_QUERY = 500  # below SQLite's oldest limit of 999 variables
_BYTES = np.dtype("<f4")
_HEADER = 8  # bytes, of the length of a safetensors file's header


class VectorCache:
    """Vectors of one EmbedSpec, never written twice. Calls wait: use `asyncio.to_thread` in an event loop."""

    def __init__(self, engine: Engine, writer: Writer, files: Files, spec: EmbedSpec) -> None:
        self.spec = spec
        self._engine = engine
        self._writer = writer
        self._files = files
        self._rows: int | None = None  # of this spec in the database, as far as this process knows

    def get_many(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors [D] of those keys that are stored; read-only arrays. DamageError."""
        vectors = {row.key: np.frombuffer(row.body, dtype=_BYTES) for row in self._of(VECTORS, keys)}
        sealed = self._of(SHARDS, [key for key in keys if key not in vectors])
        for file, rows in groupby(sorted(sealed, key=lambda row: row.file), lambda row: row.file):
            vectors |= self._read(file, list(rows))
        return vectors

    def put_many(self, vectors: Mapping[str, Floats]) -> None:
        """Store vectors [D] by key; returns once committed. DataError on another D, or on a NaN or infinity."""
        spec = self.spec.hash
        rows = [add_checksum(VECTORS, {"spec": spec, "key": k, "body": self._bytes(k, v)}) for k, v in vectors.items()]
        self._do(lambda connection: insert_new(connection, VECTORS, rows))
        if self._rows is None:
            query = select(func.count()).select_from(VECTORS).where(VECTORS.c.spec == spec)
            self._rows = rows_of(self._engine, query)[0][0]
        else:
            self._rows += len(rows)
        if self._rows >= ROWS:
            self.seal()

    def seal(self) -> None:
        """Move this spec's rows into shards. A process that is killed may leave behind a shard that no row names."""
        while self._do(self._seal_some):
            pass
        self._rows = 0

    def _seal_some(self, connection: Connection) -> int:
        ours = select(VECTORS).where(VECTORS.c.spec == self.spec.hash)
        query = ours.order_by(VECTORS.c.key).limit(A_SHARD).with_for_update()
        if not (rows := list(verify_rows(connection, VECTORS, connection.execute(query)))):
            return 0
        bodies = [row.body for row in rows]
        data = save({"vectors": np.frombuffer(b"".join(bodies), _BYTES).reshape(len(rows), -1)}, {"spec": rows[0].spec})
        file, start = hashlib.sha256(data).hexdigest(), _HEADER + int.from_bytes(data[:_HEADER], "little")
        self._files.put(shard_path(file), data)  # on disk before the rows that name it
        sealed = (
            {"spec": row.spec, "key": row.key, "file": file, "place": place, "body_checksum": zlib.crc32(row.body)}
            for row, place in zip(rows, count(start, len(bodies[0])), strict=False)
        )
        insert_new(connection, SHARDS, [add_checksum(SHARDS, row) for row in sealed])
        here = (VECTORS.c.spec == rows[0].spec, VECTORS.c.key >= rows[0].key, VECTORS.c.key <= rows[-1].key)
        moved = VECTORS.c.key.in_(select(SHARDS.c.key).where(SHARDS.c.spec == self.spec.hash))
        connection.execute(delete(VECTORS).where(*here, moved))
        return len(rows)

    def _read(self, file: str, rows: Sequence[Any]) -> dict[str, Floats]:
        what = f"the vectors' shard {shard_path(file)} in {self._files}"
        parts: list[bytes] = []
        with suppress(FileNotFoundError):
            parts = self._files.ranges(shard_path(file), [row.place for row in rows], self.spec.dim * _BYTES.itemsize)
        if [zlib.crc32(part) for part in parts] != [row.body_checksum for row in rows]:
            raise damage_error(self._engine, what)
        return {row.key: np.frombuffer(part, dtype=_BYTES) for row, part in zip(rows, parts, strict=True)}

    def _of(self, table: Any, keys: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(keys), _KEYS_A_QUERY):
            part = table.c.key.in_(keys[start : start + _KEYS_A_QUERY])
            found = rows_of(self._engine, select(table).where(table.c.spec == self.spec.hash, part))
            yield from verify_rows(self._engine, table, found)

    def _do(self, job: Callable[[Connection], Any]) -> Any:
        return self._writer.submit(job).result()

    def _bytes(self, key: str, vector: Floats) -> bytes:
        if vector.shape != (self.spec.dim,):
            raise DataError(f"vector {key[:12]} has shape {vector.shape}, its EmbedSpec says ({self.spec.dim},)")
        if not np.isfinite(vector).all():
            raise DataError(f"vector {key[:12]} holds NaN or infinity")
        return vector.astype(_BYTES, copy=False).tobytes()


def shard_path(file: str) -> str:
    return f"vectors/{file[:2]}/{file}.safetensors"


def is_intact(files: Files, file: str) -> bool:
    try:
        return hashlib.sha256(files.get(shard_path(file))).hexdigest() == file
    except FileNotFoundError:
        return False
