"""What is taken from an endpoint: its own answer, not another host's, of so many bytes."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai

BODY_LIMIT = 32 * 2**20  # bytes of an answer: n = 16 replies of 4096 tokens with log-probabilities take a fifth


class OversizedError(ValueError):
    """An answer is longer than `BODY_LIMIT`, or compressed although that was not asked for."""


def async_client() -> Any:
    """Of whichever HTTP library the SDK is built on: it follows no redirect and reads no longer body."""
    return openai.DefaultAsyncHttpxClient(**_options(), event_hooks={"response": [limit_response]})


def client() -> Any:
    """The same for calls that block."""
    return openai.DefaultHttpxClient(**_options(), event_hooks={"response": [_limit_sync_response]})


def _options() -> dict[str, Any]:
    return {"follow_redirects": False, "headers": {"accept-encoding": "identity"}}


async def limit_response(response: Any) -> None:
    """Hook of an asynchronous client: the body's bytes are counted while they come. OversizedError."""
    _check(response)
    source = response.stream

    class CountedAsyncStream(_library(response).AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in source:
                size += len(piece)
                _within(size)
                yield piece

        async def aclose(self) -> None:
            await source.aclose()

    response.stream = CountedAsyncStream()


def _limit_sync_response(response: Any) -> None:
    _check(response)
    source = response.stream

    class CountedStream(_library(response).SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for piece in source:
                size += len(piece)
                _within(size)
                yield piece

        def close(self) -> None:
            source.close()

    response.stream = CountedStream()


def _library(response: Any) -> Any:
    return sys.modules[type(response).__module__.partition(".")[0]]


def _check(response: Any) -> None:
    length = response.headers.get("content-length", "")
    _within(int(length) if length.isascii() and length.isdigit() else 0)
    if response.headers.get("content-encoding", "identity") != "identity":
        raise OversizedError("its answer is compressed, which hides its size")


def _within(size: int) -> None:
    if size > BODY_LIMIT:
        raise OversizedError(f"its answer is longer than {BODY_LIMIT >> 20} MiB")
