"""Clean the words of a page, in every environment alike (`browser/dom.js` does the same in Chromium).

Only we write marks: words of a page that look like one, `[7]`, become `(7)`. Characters that nobody sees (control,
formatting and tag characters) are removed. Text that U+202E turns around is written as a human sees it.
"""

import re
import unicodedata

_BACKWARD = re.compile(r"\u202e([^\u202c\u202d\u2069\n]*)")
_HIDDEN = re.compile(
    r"[\0-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufdd0-\ufdef\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]|[\u200c\u200d]{2,}|[\ufe00-\ufe0f]{2,}"
)
_MARK_LIKE = re.compile(r"[\[［⟦〚【〔❲⁅〖〘⦋⦗⟬﹝﹇「｢『⌈⌊]([^\[\]\n]{1,40}?)[\]］⟧〛】〕❳⁆〗〙⦌⦘⟭﹞﹈」｣』⌉⌋]")


def page_words(text: str, limit: int | None = None) -> str:
    """What an agent may read of the words of a page, at most `limit` characters of them."""
    if not text.isascii() or not text.isprintable():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a pair of surrogates
        text = _HIDDEN.sub("", _BACKWARD.sub(lambda found: found[1][::-1], text))
    if limit is not None and len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return _MARK_LIKE.sub(lambda found: f"({found[1]})" if _is_number(found[1]) else found[0], text)


def _is_number(text: str) -> bool:
    """Whether a reader sees digits alone: no variants, joiners or blanks."""
    letters = (letter for letter in text if not letter.isspace() and letter not in "\u200c\u200d")
    kinds = {unicodedata.category(letter)[0] for letter in letters}
    return "N" in kinds and kinds <= {"N", "M"}
