"""Vectors by what they were made of: (EmbedSpec.hash, EmbedItem.key) → float32 [D]."""

from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy import Engine, select

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.transitions import Floats
from bestofq.store.database import insert_new, rows_of, verify_rows
from bestofq.store.schema import VECTORS, add_checksum
from bestofq.store.writer import Writer

_KEYS_A_QUERY = 500  # below SQLite's oldest limit of 999 variables
_BYTES = np.dtype("<f4")


class VectorCache:
    """Vectors of one EmbedSpec, never written twice. Calls wait: use `asyncio.to_thread` in an event loop."""

    def __init__(self, engine: Engine, writer: Writer, spec: EmbedSpec) -> None:
        self.spec, self._engine, self._writer = spec, engine, writer

    def get_many(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors [D] of those keys that are stored; read-only arrays. DamageError."""
        vectors: dict[str, Floats] = {}
        for start in range(0, len(keys), _KEYS_A_QUERY):
            part = VECTORS.c.key.in_(keys[start : start + _KEYS_A_QUERY])
            found = rows_of(self._engine, select(VECTORS).where(VECTORS.c.spec == self.spec.hash, part))
            rows = verify_rows(self._engine, VECTORS, found)
            vectors |= {row.key: np.frombuffer(row.body, dtype=_BYTES) for row in rows}
        return vectors

    def put_many(self, vectors: Mapping[str, Floats]) -> None:
        """Store vectors [D] by key; returns once committed. DataError on another D, or on a NaN or infinity."""
        spec = self.spec.hash
        rows = [add_checksum(VECTORS, {"spec": spec, "key": k, "body": self._bytes(k, v)}) for k, v in vectors.items()]
        self._writer.submit(lambda connection: insert_new(connection, VECTORS, rows)).result()

    def _bytes(self, key: str, vector: Floats) -> bytes:
        if vector.shape != (self.spec.dim,):
            raise DataError(f"vector {key[:12]} has shape {vector.shape}, its EmbedSpec says ({self.spec.dim},)")
        if not np.isfinite(vector).all():
            raise DataError(f"vector {key[:12]} holds NaN or infinity")
        return vector.astype(_BYTES, copy=False).tobytes()
