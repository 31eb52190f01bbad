"""Serving the viewer: loopback by default, behind a token elsewhere."""

import secrets
import socket
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlencode

import uvicorn

from bestofq.core.errors import InputError
from bestofq.store.store import Store
from bestofq.viewer.app import viewer_app


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: any free one. InputError if that cannot be had."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is empty or too long
        raise InputError(f"there is no address of the name {host!r} ({error}): give --host another") from error
    listener = socket.socket(family, kind, protocol)  # asyncio sends at once where it knows that this is TCP
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"port {port} of {host} is not available ({error.strerror}): give another by --port, or 0 for any free one"
        ) from error
    return listener


def is_loopback(listener: socket.socket) -> bool:
    return ip_address(listener.getsockname()[0]).is_loopback


def serve(store: Store, *, name: str, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` is given the address to open. InputError as `listen`."""
    listener = listen(host, port)
    token = None if is_loopback(listener) else secrets.token_urlsafe(32)
    config = uvicorn.Config(
        viewer_app(store, name=name, token=token, host=_shown(host)),
        log_level="error",
        access_log=False,  # addresses can hold the token
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    with listener:
        address, at = listener.getsockname()[:2]
        shown = _shown(socket.gethostname() if ip_address(address).is_unspecified else host)
        ready(f"http://{shown}:{at}/" + ("" if token is None else f"?{urlencode({'token': token})}"))
        uvicorn.Server(config).run(sockets=[listener])


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
