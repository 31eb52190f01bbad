"""Keys and passwords of this process, kept out of all that is written: the store's edge and the console's hide them.

A secret is known once a setting is read that holds it (an address with a password or an `api_key=`) or names it (an
environment variable). It is found as it is, and escaped as JSON, Python, URLs and HTML escape it.
"""

import base64
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TextIO
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST = 6  # characters: a shorter word would be hidden in texts that have it by chance
HIDDEN = "***"
_NAMED = re.compile(r"key|token|secret|pass|pwd|sig|auth|credential", re.IGNORECASE)
_BREAK = r"(?:[\s│]|\x1b\[[0-9;]*m)*"  # what a terminal's line breaks and colours put within a word

_KEPT_TOKENS = 4_096  # of clients' keys, the last ones
_TOKEN = re.compile(r"(?:%[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2})?([\w-]{6,})", re.ASCII)

_known: dict[str, str] = {}
_tokens: dict[str, None] = {}


def keep_secret(value: str | None, shown: str = HIDDEN) -> None:
    """From now on `hide` puts `shown` in its place. Values of less than `SHORTEST` characters are not hidden."""
    if value is not None and len(value) >= SHORTEST:
        _known.setdefault(value, shown)


def keep_token(value: str) -> None:
    """From now on `hide` hides the key of a client, as a whole word only; keys that are a plain word are not hidden.

    In constant time and space: a proxy meets any number of keys."""
    for token in _TOKEN.findall(value):
        if len(token) >= 20 or not token.isalpha():
            _tokens.pop(token, None)
            _tokens[token] = None
    while len(_tokens) > _KEPT_TOKENS:
        del _tokens[next(iter(_tokens))]


def keep_secrets_of(address: str) -> None:
    """The password in an address, the name before it where it is alone, and what its query calls a key."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    account = parts.netloc.rpartition("@")[0]
    name, _, password = account.partition(":")
    if account:
        keep_secret(f"{account}@", f"{HIDDEN}@" if not password else f"{name}:{HIDDEN}@")
        keep_secret(base64.b64encode(unquote(account).encode()).decode())
        for secret in {password or name, unquote(password or name)}:
            keep_secret(secret)
    for query in (parts.query, parts.fragment):
        for called, value in parse_qsl(query):
            if _NAMED.search(called):
                keep_secret(f"{called}={value}", f"{called}={HIDDEN}")
                keep_secret(value)


def hide(text: str, *, broken: bool = False) -> str:
    """The text without the known secrets; `broken`: also where line breaks or colours stand within one."""
    if _tokens:
        text = _TOKEN.sub(lambda found: found[0].replace(found[1], "[key]") if found[1] in _tokens else found[0], text)
    if not (longest_first := tuple(sorted(_known, key=len, reverse=True))):
        return text
    return _pattern(longest_first, broken).sub(lambda found: _known[longest_first[(found.lastindex or 1) - 1]], text)


@lru_cache(maxsize=4)
def _pattern(secrets: tuple[str, ...], broken: bool) -> re.Pattern[str]:
    between = _BREAK if broken else ""
    return re.compile("|".join(f"({between.join(map(_spelt, one))})" for one in secrets))


def hidden(tree: Any) -> Any:
    """The tree with the secrets in its texts hidden."""
    match tree:
        case str():
            return hide(tree)
        case list() | tuple():
            return [hidden(one) for one in tree]
        case Mapping():
            return {hide(name): hidden(value) for name, value in tree.items()}
    return tree


def hide_json(text: str) -> str:
    """The same for JSON as it is written; a number that is a secret by chance stays."""
    return text if hide(text) == text else json.dumps(hidden(json.loads(text)), ensure_ascii=False)


def _spelt(character: str) -> str:
    code, literal = ord(character), re.escape(character)
    ways = [literal, rf"&#(?:{code}|x{_hex(f'{code:x}')});"]
    ways += [rf"\\+{mark}{_hex(f'{code:0{size}x}')}" for mark, size in (("u", 4), ("x", 2)) if code < 16**size]
    ways += ["".join(f"%{_hex(f'{byte:02x}')}" for byte in character.encode(errors="replace"))]
    ways += [rf"\\+{repr(character)[2]}"] if character in "\r\n\t" else []
    if character in "\"'/\\&":
        ways.insert(0, r"\\+" + literal)
    return f"(?:{'|'.join(dict.fromkeys(ways))})"


def _hex(digits: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits)


class HidingStream:
    """A terminal or a pipe that hides known secrets."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(hide(text, broken=True))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
