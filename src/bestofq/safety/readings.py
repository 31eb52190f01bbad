"""What a person may read in a name, however it is spelt, and what an address asks, however it is escaped."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from urllib.parse import unquote

_BLANKS = dict.fromkeys(map(ord, "\u115f\u1160\u2800\u3164\uffa0"), " ")  # letters that show nothing
_HIDDEN = re.compile(r"[\u034f\u0640\u180b-\u180e\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # joiners, tatweel, variants
_DIGITS = str.maketrans("01345789", "oleastbg")  # digits in the place of letters
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"(?:LATIN|REGIONAL INDICATOR) .*\b([A-Z])$")
_SLASHES = str.maketrans("\\", "/")  # a browser takes both for one
_ESCAPES = 5  # layers of percent signs taken off an address


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Folded case, no accents, no punctuation, nothing invisible, single blanks."""
    return " ".join(re.sub(r"[^\w\u0900-\u0e7f]|_", " ", fold_text(text)).split())


def fold_text(text: str) -> str:
    """Folded case and compatibility forms (NFKD), no accents, nothing invisible."""
    decomposed = unicodedata.normalize("NFKD", visible(text).casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c)).replace("ı", "i")


def visible(text: str) -> str:
    """Without characters that show nothing: zero-width ones, soft hyphens, tags, marks of direction, variants."""
    if text.isascii() and text.isprintable():
        return text
    shown = _HIDDEN.sub("", text.translate(_BLANKS))
    return "".join(c for c in shown if c.isspace() or unicodedata.category(c) not in ("Cf", "Cc"))


@lru_cache(maxsize=4096)
def readings(name: str) -> tuple[str, ...]:
    """Distinct `plain` texts that a person may read in the name, the usual one first."""
    return tuple(dict.fromkeys(filter(None, map(plain, _spellings(name)))))


def _spellings(name: str) -> Iterator[str]:
    seen = visible(name)
    yield seen
    if "\u202e" in name:  # written from the right
        yield seen[::-1]
    pictured = "".join(map(_letter, seen))
    yield pictured
    yield "".join(c for c in pictured if not unicodedata.category(c).startswith("S"))  # signs within a word
    decomposed = unicodedata.normalize("NFKD", pictured)
    base = "".join(c for c in decomposed if not unicodedata.combining(c))
    if not base.isascii():
        yield _WORD.sub(lambda word: _in_script(word.group(), "LATIN"), base)
        yield _WORD.sub(lambda word: _in_script(word.group(), "CYRILLIC"), base)
    yield re.sub(r"\b(?=\w*[^\W\d_])(?=\w*\d)\w+", lambda word: word.group().translate(_DIGITS), base)
    words = plain(base).split()
    if len(words) > 2 and 2 * sum(len(word) == 1 for word in words) > len(words):  # letters apart
        yield "".join(words)


@cache
def _letter(character: str) -> str:
    """The Latin letter that a sign or small capital pictures; another character itself."""
    if character.isascii() or unicodedata.decomposition(character):
        return character
    found = _LETTER.search(unicodedata.name(character, ""))
    turned = "TURNED" in unicodedata.name(character, "")
    return found[1] if found and not turned else character


def _in_script(word: str, script: str) -> str:
    """The word in the script's letters, if all its letters are or look like such (Unicode TR39), else itself."""
    found = [_look_alike(letter, script) for letter in word]
    return "".join(letter for letter in found if letter) if all(found) else word


@cache
def _look_alike(letter: str, script: str) -> str | None:
    """The letter of the script that it looks like, itself where it is one or no letter; None where there is none."""
    from confusable_homoglyphs.confusables import confusables_data  # 0.2 s, for names that are not in ASCII alone

    if not letter.isalpha() or unicodedata.name(letter, "").startswith(script):
        return letter
    alike = (one["c"] for one in confusables_data.get(letter, ()))
    found = [c for c in alike if len(c) == 1 and c.isalpha() and unicodedata.name(c, "").startswith(f"{script} ")]
    same_case = [c for c in found if c.isupper() == letter.isupper()]
    return min(same_case or found, key=ord, default=None)


def address(url: str) -> str:
    """What an address asks of its site, as a browser reads it: path, query and fragment, unescaped and folded."""
    url = re.sub(r"[\t\r\n]", "", url).translate(_SLASHES)
    for _ in range(_ESCAPES):
        if url == (url := unquote(url).translate(_SLASHES)):
            break
    return fold_text(re.sub(r"^[a-z][a-z0-9+.-]*://[^/?#]*", "", url.strip(), flags=re.IGNORECASE))
