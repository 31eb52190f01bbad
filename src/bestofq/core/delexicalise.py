"""Text without what differs between two visits or two goals, so that a page and an action are known again.

`Add brass chair to bag [16702]` becomes `add _ _ to bag` if the goal is to buy a brass chair. A scorer that counts
(`learning.memory`) or embeds then learns about every chair from one.
"""

import re
from collections.abc import Collection
from functools import lru_cache, partial
from urllib.parse import unquote

GOAL_WORD = "_"
_FUNCTION_WORDS = """
a an the this that these those some any all and or but not no of in on at to for from by with without as into
than then so it its is are was be been being i me my we our you your he she they them their which who what when
please can could would should will do does has have had want need looking look find get give show buy order book
add go make search select choose price priced cost costs costing lower less below under more above over up down
out off one new now
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words of a goal that say nothing about what is wanted. They stay, so that `Sign in` is the same button for all."""

_NUMBER = r"\d+(?:[.,]\d+)*"
_SIGN = "[$€£¥₹₽₩₺₴₫฿]"
_CODE = r"(?:usd|eur|gbp|chf|cad|aud|nzd|hkd|sgd|jpy|cny|inr|rs\.?|sek|nok|dkk|pln|czk|huf|brl|mxn|zar|krw)"
_UNIT = rf"(?:{_CODE}|dollars?|euros?|pounds?|francs?|yen|rupees?|kr|kč|zł)\b"
_GAPS = "\u00a0\u202f'’"  # between groups of three digits
_BEFORE = rf"(?:\d{{1,3}}(?:[{_GAPS}]\d{{3}})+(?!\d)(?:[.,]\d+)?|{_NUMBER})"  # 1'299.50
_AFTER = _BEFORE.replace(_GAPS, f" {_GAPS}")  # 1 299,50
_TIMES = {"k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9}
_LARGE = r"(?:\s?(?:k|mn?|bn|thousand|million|billion)\b)?"
_AMOUNT = re.compile(r"(\d[\d.,]*)(?:\s?(k|m|b|thousand|million|billion)n?\b)?")
_TOKEN = re.compile(
    rf"""
    (?P<kind>\{{[a-z ]+\}})                                                   # what is replaced already
  | (?P<mark>\[\d+\])
  | (?P<url>\bhttps?://[^\s"'<>)\]]+)
  | (?P<path>(?<![\w<.)])/[\w.~%@:+-]*(?:/[\w.~%@:+-]*)*(?:[?#][^\s"'<>)\]]*)?)
  | (?P<time>\b\d{{4}}-\d\d-\d\d(?:[t\ ]\d\d:\d\d[\d:.]*(?:z|[+-]\d\d:?\d\d)?)?\b
      |\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b|\b\d{{1,2}}:\d\d(?::\d\d)?(?:\s?[ap]m\b)?)
  | (?P<price>(?:(?:\b[a-z]{{1,3}})?{_SIGN}|\b{_CODE})\s?{_BEFORE}{_LARGE}
      |\b{_AFTER}{_LARGE}\s?(?:{_SIGN}(?!\d)|{_UNIT}))
  | (?P<id>\b[\da-f]{{8}}(?:-[\da-f]{{4}}){{3}}-[\da-f]{{12}}\b
      |\b(?=[^\W\d]*\d)(?=[\d_]*[^\W\d_])\w+(?:-\w+)*\b)
  | (?P<number>{_NUMBER}%?)
  | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAME_CASES = re.compile("l*(?:u{1,5}l{2,})*u{0,5}")
"""Small (l) and capital (u) letters of names and words: `myOrders`, `Eiffel_Tower`, `HTMLForm`, `orderID`."""
_PATH = re.compile(r"(?:(?:https?:)?//[^/?#]*)?([^?#]*)", re.IGNORECASE)


def delexicalise(text: str, goal: str = "") -> str:
    """Return the text in small letters, with patterns instead of what is volatile.

    - A word or number of the goal becomes `_`, except `FUNCTION_WORDS`.
    - A mark such as `[16702]` goes: what it stands at has a name.
    - Ids and tokens (letters with digits, hexadecimal), times and dates, and other numbers become `{id}`, `{time}`,
      `{number}`.
    - A price becomes `{price}`. If the goal names a price too, it becomes `{within}` (at most the goal's highest) or
      `{beyond}`.
    - An address becomes its path's pattern: `https://a.example/item/P07?q=b` becomes `/item/{id}`. A part of the path
      that holds an id (`sony-wh1000`, `cG-F9yo6`), or letters in no word's cases (`dQw-wWgXc`), is one.

    The result is a fixed point: `delexicalise(delexicalise(text, goal), goal)` changes nothing.
    """
    words, limit = _read_goal(goal)
    return " ".join(_TOKEN.sub(partial(_replace, words=words, limit=limit), text).casefold().split())


def content_words(text: str) -> frozenset[str]:
    """Return the words and numbers that say what a text is about."""
    found = (one for one in _TOKEN.finditer(text.casefold()) if one.lastgroup in ("word", "number", "id"))
    return frozenset(word for one in found if (word := one.group()) not in FUNCTION_WORDS)


@lru_cache(256)
def _read_goal(goal: str) -> tuple[frozenset[str], float | None]:
    prices = (one.group() for one in _TOKEN.finditer(goal.casefold()) if one.lastgroup == "price")
    return content_words(goal), max(map(_amount, prices), default=None)


def _replace(found: re.Match[str], words: Collection[str], limit: float | None) -> str:
    kind, text = str(found.lastgroup), found.group()
    if kind in ("url", "path"):
        parts = _PATH.findall(text)[0].split("/")
        replace = partial(_replace, words=words, limit=None)
        return "/".join("{id}" if _is_id(part) else _TOKEN.sub(replace, part) for part in parts) or "/"
    text = text.casefold()
    if kind in ("kind", "word", "number", "id") and text in words:
        return GOAL_WORD
    match kind:
        case "kind" | "word":
            return text
        case "mark":
            return ""
        case "price" if limit is not None:
            return "{within}" if _amount(text) <= limit else "{beyond}"
    return f"{{{kind}}}"


def _is_id(part: str) -> bool:
    """Return whether a part of a path holds letters with digits, or letters in cases that no name has."""
    pieces = re.findall(r"[^\W_]+", unquote(part))
    if any(not piece.isalpha() and not piece.isdigit() for piece in pieces):
        return True
    letters = "".join(filter(str.isalpha, pieces))
    cases = "".join("l" if letter == letter.casefold() else "u" for letter in letters)
    return not _NAME_CASES.fullmatch(cases)


def _amount(price: str) -> float:
    """Return the number in a price. The last separator with two digits behind it is the decimal point."""
    number, large = _AMOUNT.findall(re.sub(rf"(?<=\d)[ {_GAPS}](?=\d{{3}})", "", price))[0]
    whole = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number.rstrip(".,")).replace(",", ".")
    head, _, tail = whole.rpartition(".")
    return float(f"{head.replace('.', '')}.{tail}" if head else tail) * _TIMES.get(large[:1], 1)
