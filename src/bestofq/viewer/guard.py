"""Who may read, and what a page may do: the token, the names of this machine, and the headers of every answer.

Whatever the pages of a store hold, no browser runs, loads or sends anything that is not the viewer's own.
"""

import secrets
from hashlib import sha256
from urllib.parse import urlencode

from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from bestofq.core.loopback import own_host

POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ViewerGuard(BaseHTTPMiddleware):
    """Lets an application be read by who knows `token`. Without one, requests must name this machine: by a loopback
    name, or by `host`, the name it listens on.

    The names matter: a page elsewhere could have its own name lead to 127.0.0.1, and then read what is served there.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, host: str | None = None) -> None:
        super().__init__(app)
        self._own = own_host(*(() if host is None else (host,)))
        self._token = token
        self._cookie = "" if token is None else f"bestofq_view_{sha256(token.encode()).hexdigest()[:8]}"

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = self._answer(request) or await call_next(request)
        answer.headers.update(HEADERS)
        return answer

    def _answer(self, request: Request) -> Response | None:
        """None: let it pass."""
        if self._token is None:
            called = request.headers.getlist("host")  # not `request.url`: where this is no name, it has the socket's
            if len(called) == 1 and self._own.fullmatch(called[0]):
                return None
            return _refusal(f"This viewer answers to the names of its own machine only, not to {', '.join(called)!r}.")
        if (token := request.query_params.get("token")) is not None:
            if not self._is_token(token):
                return _refusal("This is not the viewer's token: open the address that `bestofq view` printed.")
            rest = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
            path = "/" + request.url.path.lstrip("/\\")  # `//host` is another site
            welcome = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
            welcome.set_cookie(self._cookie, token, httponly=True, samesite="lax")  # from here on the cookie speaks
            return welcome
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        return _refusal("This viewer asks for its token: open the address that `bestofq view` printed.")

    def _is_token(self, word: str) -> bool:
        return secrets.compare_digest(word.encode(), (self._token or "").encode())


def _refusal(sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", 403)
