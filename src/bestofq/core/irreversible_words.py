"""The patterns of `irreversible_words.toml`: commands that cannot be taken back, and personal data.

They are matched against `plain` text: case and accents folded, punctuation gone, so they are written without.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

Words = re.Pattern[str]


def plain(text: str) -> str:
    """Folded case, no accents, no punctuation, single blanks."""
    return " ".join(re.sub(r"[\W_]+", " ", _folded(text)).split())


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _any(patterns: Sequence[str], start: str = r"\b(?:", end: str = r")\b") -> Words:
    """One of them as whole words; without patterns, nothing."""
    return re.compile(start + _folded("|".join(patterns)) + end) if patterns else re.compile(r"(?!)")


class Command:
    """One kind of command: phrases that are sure wherever a name begins with them, and verbs that open a name."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        sure, verbs, last, script = (table.get(name, ()) for name in ("sure", "verbs", "last", "script"))
        self.reason: str = table["reason"]
        self.sure = _any(sure)
        self.verb = _any(verbs)
        self.infinitive = _any(last, end=r")$")  # German and Dutch put the verb last
        self.noun_too = _any(table.get("nouns_too", ()))  # as a link they are places, not commands
        self.script = _any(script, start="(?:", end=")")  # of languages without blanks
        self.harmless = _any(table.get("harmless", ()))
        self.asked = _any((*sure, *verbs, *last, *script))
        self.in_carts_harmless: bool = table.get("in_carts_harmless", False)


def _read() -> dict[str, Any]:
    text = files("bestofq.core").joinpath("irreversible_words.toml").read_text("utf-8")
    return tomllib.loads(text.replace("{mine}", tomllib.loads(text)["mine"]))


_DATA = _read()
_WORDS, _PATTERNS = _DATA["words"], _DATA["patterns"]
COMMANDS: Sequence[Command] = [Command(table) for table in _DATA["command"]]
BARE_YES = _any(_WORDS["bare_yes"])
WITH_TEXT = _any(_WORDS["with_text"], end=r")$")
MESSAGE = _any(_WORDS["message"])
SEARCH = _any(_WORDS["search"])
HARMLESS_BUTTON = _any(_WORDS["harmless_button"])
SUBMITTING = _any(_WORDS["submitting"])
ROLE_WORDS = _any(_WORDS["role_words"])
LEAD_IN = re.compile(_PATTERNS["lead_in"])
CART = re.compile(_PATTERNS["cart"])
URL_WORDS = re.compile(_PATTERNS["url_words"])
PERSONAL_TOKENS: Sequence[tuple[Words, str]] = [
    (re.compile(pattern), what) for what, pattern in _DATA["personal_tokens"].items()
]
PERSONAL: Sequence[tuple[Words, str]] = [(_any(patterns), what) for what, patterns in _DATA["personal"].items()]
