"""Damage to files: one flipped bit."""

import random
from collections.abc import Iterator


def flip(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def flips(content: bytes, count: int) -> Iterator[bytes]:
    """The content with one bit flipped, at `count` random places."""
    return (flip(content, bit) for bit in random.Random(0).sample(range(8 * len(content)), count))
