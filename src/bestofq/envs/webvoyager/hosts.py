"""Which hosts a task may reach: its own site, and what that site's pages are put together from.

The guard (`browser/guard.py`) holds every connection, not only pages: a site whose pictures and scripts come from
another name needs that name allowed. `COMPANIONS` are such names as they are publicly known (`hosts.toml`), not checked
against the live sites; where a page stays bare, give what is missing as an extra host.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from urllib.parse import urlsplit

COMPANIONS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("hosts.toml").read_text("utf-8"))
SEARCH_ENGINES = frozenset({"Google Search", "Bing Search"})
"""Domains whose tasks lead to any site of the web: they are held to no host."""
_ADDRESS = re.compile(r"[\d.]+|.*:.*")  # IPv4 or IPv6


def allowed_hosts(domain: str, start_url: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """The start URL's host without `www.`, all below it, its companions, and `extra`; empty (any) for search engines.

    There is no list of public suffixes here, and so nothing is taken off a host but `www.`: a task on
    `dictionary.cambridge.org` may not reach the whole of `cambridge.org` unless a companion says so.
    """
    if domain in SEARCH_ENGINES:
        return ()
    host = urlsplit(start_url).hostname or ""
    if _ADDRESS.fullmatch(host):
        own: tuple[str, ...] = (f"[{host}]" if ":" in host else host,)
    else:
        host = host.removeprefix("www.")
        own = (host, f"*.{host}", *COMPANIONS.get(host, ()))
    return tuple(dict.fromkeys((*own, *extra)))
