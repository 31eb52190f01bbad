"""The endpoint behind the proxy: what is sent on, and what is taken from it."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import NamedTuple

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from bestofq.core.secrets import hide
from bestofq.interop.nouns import json_in
from bestofq.models.endpoint import BODY_LIMIT, OversizedError, limit_response
from bestofq.serve.wire import Json

Headers = Sequence[tuple[bytes, bytes]]  # as they are sent: in any encoding, and some more than once
HOP = {b"connection", b"content-length", b"host", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
HOP |= {b"date", b"server"}  # our server says its own
ENCODED = HOP | {b"content-encoding"}  # of a response that httpx unpacked


class UpstreamReply(NamedTuple):
    """What the upstream said: JSON where it is a completion."""

    status: int
    headers: Headers
    content: bytes
    json: Json | None

    def response(self) -> Response:
        return _with(Response(self.content, self.status), filter_headers(self.headers, ENCODED))


def failure(status: int, what: str) -> UpstreamReply:
    said = json.dumps({"error": {"message": what}}).encode()
    return UpstreamReply(status, [(b"content-type", b"application/json")], said, None)


TOO_LONG = failure(413, f"the request is longer than {BODY_LIMIT >> 20} MiB")
LATE = failure(504, "the upstream was too slow")


async def body_of(request: Request, limit: int | None = None) -> bytes | None:
    """What a client sends, None where it is longer than the limit, by default `BODY_LIMIT`."""
    pieces, size = [], 0
    async for piece in request.stream():
        if (size := size + len(piece)) > (limit or BODY_LIMIT):
            return None
        pieces.append(piece)
    return b"".join(pieces)


def request_to(client: httpx.AsyncClient, method: str, url: str, content: bytes, headers: Headers) -> httpx.Request:
    """As an agent sent it. `client.build_request` would add the cookies that others were given, and ask for gzip."""
    timeout = {"timeout": client.timeout.as_dict()}
    sent = httpx.Request(method, url, content=content, headers=headers, extensions=timeout)
    sent.headers.setdefault("accept-encoding", "identity")
    return sent


async def post(client: httpx.AsyncClient, url: str, content: bytes, headers: Headers) -> UpstreamReply:
    """The whole answer, at most `BODY_LIMIT` bytes of it; a 502 where there is none, or a redirect."""
    sent = request_to(client, "POST", url, content, headers)
    sent.headers["accept-encoding"] = "identity"
    try:
        async with aclosing(await client.send(sent, stream=True)) as answer:
            await limit_response(answer)
            await answer.aread()
    except (httpx.TransportError, OversizedError) as error:
        return unreachable(error)
    del answer.stream  # it refers to the answer: this circle would hold a large request until the next full collection
    if answer.has_redirect_location:
        return sent_on(answer)
    try:
        said = json_in(answer.content) if answer.status_code == 200 else None
    except ValueError:
        said = None
    known = said if isinstance(said, dict) else None
    return UpstreamReply(answer.status_code, answer.headers.raw, answer.content, known)


async def stream_answer(client: httpx.AsyncClient, sent: httpx.Request) -> Response:
    """The answer byte for byte as it comes."""
    try:
        answer = await client.send(sent, stream=True)
    except httpx.TransportError as error:
        return unreachable(error).response()
    if answer.has_redirect_location:
        await answer.aclose()
        return sent_on(answer).response()
    return _with(_Stream(_close_after(answer), answer.status_code), filter_headers(answer.headers.raw, HOP))


def unreachable(error: Exception) -> UpstreamReply:
    """Clients try a 502 again, as they would a lost connection."""
    return failure(502, f"the upstream gave no answer ({type(error).__name__})")


def sent_on(answer: httpx.Response) -> UpstreamReply:
    there = hide(answer.headers["location"])[:200]
    return failure(502, f"the upstream sends on to {there}, which is not followed")


def filter_headers(headers: Iterable[tuple[bytes, bytes]], left_out: set[bytes]) -> Headers:
    lower = ((name.lower(), value) for name, value in headers)
    return [(name, value) for name, value in lower if name not in left_out]


def _with(response: Response, headers: Headers) -> Response:
    response.raw_headers += headers
    return response


class _Stream(StreamingResponse):
    async def stream_response(self, send: Send) -> None:
        with suppress(httpx.TransportError):  # the client's answer then ends unfinished, too
            await super().stream_response(send)


async def _close_after(answer: httpx.Response) -> AsyncIterator[bytes]:
    async with aclosing(answer):
        async for piece in answer.aiter_raw():
            yield piece
    del answer.stream
