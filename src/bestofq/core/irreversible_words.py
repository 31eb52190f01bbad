"""The words of `irreversible.toml` as patterns, to be matched against `plain` text."""

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


def _any(*patterns: str, start: str = r"\b(?:", end: str = r")\b") -> Words:
    """One of them as whole words; without patterns, nothing."""
    alternatives = "|".join(patterns).replace("{mine}", _DATA["mine"])
    return re.compile(start + _folded(alternatives) + end) if patterns else re.compile(r"(?!)")


class Command:
    """One kind of command: phrases that are sure wherever a name begins with them, and verbs that open a name."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        sure, verbs, last, script = (entry.get(name, ()) for name in ("sure", "verbs", "last", "script"))
        self.reason: str = entry["reason"]
        self.sure = _any(*sure)
        self.verb = _any(*verbs)
        self.infinitive = _any(*last, end=r")$")  # German and Dutch put the verb last
        self.noun_too = _any(*entry.get("nouns_too", ()))  # as a link they are places, not commands
        self.script = _any(*script, start="(?:", end=")")  # of languages without blanks
        self.harmless = _any(*entry.get("harmless", ()))
        self.ask = _any(*sure, *verbs, *last, *script)
        self.in_carts_harmless: bool = entry.get("in_carts_harmless", False)


_DATA = tomllib.loads(files(__package__).joinpath("irreversible.toml").read_text("utf-8"))
COMMANDS: Sequence[Command] = [Command(entry) for entry in _DATA["commands"]]
LEAD_IN = _any(*_DATA["lead_in"], start="^(?:(?:", end=") )+")
BARE_YES = _any(*_DATA["bare_yes"])
WITH_TEXT = _any(*_DATA["with_text"], end=r")$")
MESSAGE = _any(*_DATA["message"])
SEARCH = _any(*_DATA["search"])
HARMLESS_BUTTON = _any(*_DATA["harmless_button"])
SUBMITTING = _any(*_DATA["submitting"])
ROLE_WORDS = _any(*_DATA["role_words"])
CART = _any(*_DATA["cart"], start="", end="")
URL_WORDS = _any(*_DATA["url_words"], start=r"(?<![\w-])(?:", end=r")(?![\w-])")
PERSONAL_TOKENS: Sequence[tuple[Words, str]] = [
    (re.compile(tokens), what) for what, tokens in _DATA["personal_tokens"].items()
]
PERSONAL: Sequence[tuple[Words, str]] = [(_any(*names), what) for what, names in _DATA["personal"].items()]
