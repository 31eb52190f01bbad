"""Known secrets are hidden however they are written; what only looks like one stays."""

import io
import json
import time
from collections.abc import Callable
from html import escape
from urllib.parse import quote

import pytest

from bestofq.core.secrets import HidingStream, hidden, hide, hide_json, keep_secret, keep_secrets_of, keep_token

KEY = 'sk-"or/ä&-7f'


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        json.dumps(json.dumps(KEY)),
        json.dumps(KEY, ensure_ascii=False)[1:-1].replace("/", "\\/"),
        "".join(f"\\u{ord(c):04X}" for c in KEY),
        "".join(f"\\x{ord(c):02x}" for c in KEY),
        quote(KEY, safe=""),
        quote(KEY),
        escape(KEY).replace("&quot;", "&#34;").replace("&amp;", "&#x26;"),
    ],
)
def test_a_key_is_found_however_it_is_escaped(written: str) -> None:
    assert hide(f"<{written}>") == f"<{written}>"
    keep_secret(KEY, "[KEY]")
    said = hide(f"<{written}>")
    assert "[KEY]" in said
    assert "7f" not in said


def test_the_terminal_breaks_no_key_in_two() -> None:
    keep_secret("sk-never-to-be-seen")
    out = io.StringIO()
    HidingStream(out).write("got sk-never-\x1b[0m\n│ to-be-seen, no more")
    assert out.getvalue() == "got ***, no more"


@pytest.mark.parametrize("written", [repr, json.dumps, lambda key: repr(key.encode())])
def test_a_line_break_in_a_secret_is_found_as_it_is_escaped(written: Callable[[str], str]) -> None:
    keep_secret("pass\tword\r\n", "[KEY]")
    assert hide(written("<pass\tword\r\n>")).strip("b'\"") == "<[KEY]>"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://ann:pw@a.test/v1", "http://ann:***@a.test/v1"),
        ("http://ann:hunter2%21@a.test/v1?x=1", "http://ann:***@a.test/v1?x=1"),
        ("https://only-a-token@a.test/v1", "https://***@a.test/v1"),
        ("https://a.test/v1?api_key=0123456789&n=3", "https://a.test/v1?api_key=***&n=3"),
        ("https://a.test/v1?n=3#access_token=0123456789", "https://a.test/v1?n=3#access_token=***"),
        ("http://[::1/v1", "http://[::1/v1"),
    ],
)
def test_what_an_address_holds_is_a_secret(address: str, shown: str) -> None:
    keep_secrets_of(address)
    assert hide(f"asked {address} twice") == f"asked {shown} twice"
    assert "hunter2!" not in hide("the password is hunter2! here") or "hunter2" not in address


def test_json_stays_json_though_a_number_is_a_secret_by_chance() -> None:
    keep_secret("123456")
    assert json.loads(hide_json('{"tokens": 1234567, "said": "123456"}')) == {"tokens": 1234567, "said": "***"}
    assert hidden({"a": ("123456", 123456)}) == {"a": ["***", 123456]}


def test_clients_keys_are_hidden_as_whole_words_in_constant_time() -> None:
    started = time.perf_counter()
    for number in range(5_000):
        keep_token(f"oauth-{number}-{'k7' * 600}/{number}abcdef==")
    keep_token("search")
    last = f"oauth-4999-{'k7' * 600}/4999abcdef=="
    assert hide(f"search for {last}, {quote(last, safe='')} and a{last}") == (
        f"search for [key]/[key]==, [key]%2F[key]%3D%3D and a{last.replace('4999abcdef', '[key]')}"
    )
    assert "oauth-0-" in hide(f"oauth-0-{'k7' * 600}")  # long ago
    assert time.perf_counter() - started < 2
