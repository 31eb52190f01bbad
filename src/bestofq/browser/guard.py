"""Hold an episode to the task's hosts, at the network layer and at no cost per request.

A restricted context gets a proxy that refuses every connection, and a bypass list of the allowed hosts. Chromium
applies it to every connection: pages, frames, images, redirects, workers, WebSockets, preconnects. Allowed hosts are
reached directly. All others end in `net::ERR_PROXY_CONNECTION_FAILED` before a byte leaves the machine.
"""

import re
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from playwright.async_api import ProxySettings

from bestofq.core.errors import ConfigError

_HOST = re.compile(r"(\*\.)?([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")


class NetworkGuard:
    """A loopback port that is bound but never listens: the kernel refuses whoever connects."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        self._port = self._socket.getsockname()[1]

    def proxy(self, hosts: Sequence[str]) -> ProxySettings | None:
        """Settings that let through `hosts` only (`host`, `host:port`, `*.host`); None: any. ConfigError: no host."""
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ConfigError(f"allowed_hosts holds {host!r}; write `host`, `host:port` or `*.host`.")
        if not hosts:
            return None
        return {"server": f"http://127.0.0.1:{self._port}", "bypass": ",".join(hosts)}

    def close(self) -> None:
        self._socket.close()


def allows(hosts: Sequence[str], url: str) -> bool:
    """Whether the guard lets `url` through: the same rule as the proxy's, for a sentence before the attempt."""
    parts = urlsplit(url)
    if not hosts or parts.scheme in {"about", "data", "blob"}:
        return True
    name = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443, "ws": 80, "wss": 443}.get(parts.scheme)
    for host in hosts:
        pattern, _, wanted = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
        pattern = pattern.strip("[]").lower()
        fits = name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern
        if fits and (not wanted or int(wanted) == port):
            return True
    return False


def refusal(url: str, hosts: Sequence[str]) -> str:
    return f"{urlsplit(url).netloc or url} is not among the task's allowed hosts ({', '.join(hosts)})."
