"""Models as bytes: JSON, deflated with a dictionary of common words; and the checksums that detect damage.

The dictionary is part of the format: changing it needs another `schema.VERSION`.
"""

import hashlib
import zlib
from collections.abc import Sequence
from typing import TypeVar

from bestofq.core.frozen import FrozenModel
from bestofq.core.secrets import hide_json

N = TypeVar("N", bound=FrozenModel)

_WORDS = (
    b'"notices":[],"tabs":[],"error":null,"screenshot":{"sha256":"","media_type":"image/jpeg","width":1280,"height":720}'
    b'"states":["checked","selected","expanded","disabled"],"box":[0.0,0.0,'
    b'{"url":"http://127.0.0.1:","title":"","text":"","elements":[{"mark":1,"role":"link","name":"'
    b'"role":"textbox","name":"","value":"","role":"radio","name":"","role":"button","name":"'
    b'{"role":"embedder","tokens_in":0,"tokens_out":0,"calls":1,"seconds":0.0},'
    b'"explored":false,"usage":[{"role":"proposer","tokens_in":0,"tokens_out":0,"calls":1,"seconds":0.0}]}'
    b'"scores":[0.0,0.0,0.0],"state_value":0.0,"chosen":0,"explored":true,'
    b'{"candidates":[{"action":{"mark":1,"kind":"write","text":"","enter":true},"label":"write textbox ","thought":"'
    b'{"action":{"mark":1,"kind":"click"},"label":"click link ","thought":"","note":"","log_prob":-0.1,"reply":"'
    b'\\nclick ["},'
)
_LEVEL = 4


def pack(noun: FrozenModel) -> bytes:
    """Deflate a model's JSON without its unset (None) fields and without known secrets."""
    deflate = zlib.compressobj(_LEVEL, zdict=_WORDS)
    return deflate.compress(hide_json(noun.model_dump_json(exclude_none=True)).encode()) + deflate.flush()


def unpack(kind: type[N], body: bytes) -> N:
    """Reverse `pack`; zlib.error or pydantic.ValidationError if `body` is no packed `kind`."""
    return kind.model_validate_json(text_of(body))


def text_of(body: bytes) -> bytes:
    """Return the JSON of a packed model; zlib.error if `body` is none."""
    return zlib.decompressobj(zdict=_WORDS).decompress(body)


def content_key(body: bytes) -> bytes:
    """Return 16 bytes of the sha256 of a packed model: equal models have equal keys."""
    return hashlib.sha256(body).digest()[:16]


def checksum(values: Sequence[object]) -> int:
    """Return the CRC-32 of a row's values. Only the last may be a long `bytes`."""
    if isinstance(last := values[-1], bytes):
        return zlib.crc32(last, zlib.crc32(repr(values[:-1]).encode()))
    return zlib.crc32(repr(values).encode())
