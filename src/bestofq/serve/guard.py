"""Keeps web pages out: a browser lets any page send here, and a page's own name may lead to 127.0.0.1."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bestofq.core.loopback import own_host

_OWN = own_host("host.docker.internal", "host.containers.internal")  # as containers call the machine


class UpstreamGuard:
    """Refuses what bears the origin of a page elsewhere, and any `Host` but this machine's names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope) if scope["type"] == "http" else None
        why, status = _foreign(request) if request else None, 403
        if request and {"content-length", "transfer-encoding"} <= {*request.headers}:  # a second request may hide in it
            why, status = "a request has Content-Length or Transfer-Encoding, not both", 400
        refused = JSONResponse({"error": {"message": why}}, status, {"connection": "close"}) if why else None
        await (refused or self._app)(scope, receive, send)


def _foreign(request: Request) -> str | None:
    """Why it seems to come from a page elsewhere; no page has the origin of an extension or a desktop program."""
    for origin in request.headers.getlist("origin"):
        scheme, _, host = origin.partition("://")
        if origin == "null" or (scheme in ("http", "https") and not _OWN.fullmatch(host)):
            return f"a page of {origin!r} may not send here"
    called = request.headers.getlist("host")
    if len(called) != 1 or not _OWN.fullmatch(called[0]):
        return f"this answers to the names of its own machine only, not to {', '.join(called)!r}: ask 127.0.0.1"
    return None
