"""Return whether an action seems irreversible: then users confirm it first, and search avoids it on open pages.

The page decides: the element's role, name, text and link in any spelling, its form and what that would send. The
page's address counts too, and the words before a bare "Yes". It is a seat belt and no wall. It may ask too often. A
button named "Next", or without words, gets past it unless every form is confirmed (measured by `benchmarks/gate.py`).
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any
from unicodedata import normalize

from bestofq.core.actions import Action, Click, Goto, Submit, Upload, Write, amounts_to, element_of
from bestofq.core.observation import UNREADABLE, Element, Observation
from bestofq.safety.readings import address, fold_text, plain, readings, visible

_WRITABLE = {"textbox", "searchbox", "combobox", "spinbutton", "listbox"}
_VALUED = {*_WRITABLE, "slider", "scrollbar"}  # roles whose click says nothing: they are named after what they hold
_CHOICES = {"radio", "checkbox", "switch", "tab", "option"}  # named after what they choose: a verb alone is no command
_WORDS_OF_A_LINK = 3  # a longer one is a title
_WORDS_OF_A_BUTTON = 8
_LETTERS_OF_A_BUTTON = 45  # of as many words as a language needs
_LETTERS_OF_A_SCRIPT = 24  # of a name in a language without blanks
_PAUSE = re.compile(r"[,;:.!?|–—]+\s+|\s+[-·•–—]+\s+|\n+")  # "No, delete it", not "non-stop"
_BEFORE = 240  # characters of the page read before a bare "Yes"

# The words of `words.toml` and `commands/` as patterns, to be matched against `plain` text.
Words = re.Pattern[str]
Kinds = Sequence[tuple[Words, str]]


_BLANK = " ?"  # `BuyNow`, or letters apart


def _any(*patterns: str, start: str = r"\b(?:", end: str = r")\b", blank: str = " ") -> Words:
    """One of them as whole words; without patterns, nothing. `blank`: the pattern of a blank."""
    alternatives = "|".join(patterns).replace("{mine}", _DATA["mine"]).replace(" ", blank)
    return re.compile(start + fold_text(alternatives) + end) if patterns else re.compile(r"(?!)")


class Command:
    """One kind of command: phrases that are sure wherever a name begins with them, and verbs that open a name."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        sure, verbs, last, script = (entry.get(name, ()) for name in ("sure", "verbs", "last", "script"))
        self.reason: str = entry["reason"]
        self.sure = _any(*sure, blank=_BLANK)
        self.verb = _any(*verbs)
        self.infinitive = _any(*last, end=r")$")  # many languages put the verb, or its noun, last
        self.stem, self.object = (_any(*entry.get(name, ()), end=")") for name in ("stems", "objects"))
        self.noun_too = _any(*entry.get("nouns_too", ()))  # as a link they are places, not commands
        self.script = _any(*script, start="(?:", end=")")  # of languages without blanks
        self.harmless = _any(*entry.get("harmless", ()))
        self.ask = _any(*sure, *verbs, *last, *script)
        self.in_carts_harmless: bool = entry.get("in_carts_harmless", False)

    def has_pair(self, name: str) -> bool:
        """Whether it has a word that begins with a stem and one that begins with an object, in whichever order."""
        return bool(self.stem.search(name) and self.object.search(name))

    def asked_by(self, question: str) -> bool:
        return bool(self.ask.search(question) or self.has_pair(question)) and not self.harmless.search(question)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


_DATA = _read("words")
_KINDS = ("delete", "cancel", "reset", "buy", "book", "send")  # the first that fits gives the reason
COMMANDS: Sequence[Command] = [Command(_read(f"commands/{kind}")) for kind in _KINDS]
QUESTION = _any(*_DATA["question"], start="^(?:", end=r")\b")
NO = _any(*_DATA["no"], start="^(?:(?:", end=r")(?: |$))+")
DENIED = _any(*_DATA["denied"])
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
PERSONAL_TOKENS: Kinds = [(re.compile(tokens), what) for what, tokens in _DATA["personal_tokens"].items()]
PERSONAL: Kinds = [(_any(*names), what) for what, names in _DATA["personal"].items()]


def irreversible(action: Action, observation: Observation, *, forms: bool = False) -> str | None:
    """Why the action seems irreversible, words that follow "it seems to" (`buy or pay for something ("Buy now")`),
    or None. Its element is the marked one, the one under its point, or whatever its words say. `forms`: whatever sends
    a form is named, too, whatever it says."""
    action = amounts_to(action, observation)
    match action:
        case Goto():
            return _url_verb(action.url)
        case Upload():
            return f'upload a file ("{_short(action.file)}")'
        case Click(target=str(words)) | Submit(target=str(words)):
            found = _by_words(words, observation)
        case Write(enter=True):
            found = _enter(element_of(action, observation), action, observation)
        case Write() if (element := element_of(action, observation)) and element.role in ("combobox", "listbox"):
            return _chosen(action.text, observation)
        case Click() if element := element_of(action, observation):
            found = _click(element, observation)
        case Submit() if element := element_of(action, observation):
            found = _submission(element, None, observation)
        case _:
            return None
    return found or ("send a form" if forms and _sends_form(action, observation) else None)


def seems_irreversible(observation: Observation, action: Action) -> bool:
    """Return the same as a yes or no, by what the page says."""
    return irreversible(action, observation) is not None


def _sends_form(action: Click | Submit | Write, observation: Observation) -> bool:
    """Return whether an action may send a form: by its button, by Enter, or by a button near fields without a form."""
    element = element_of(action, observation)
    if not isinstance(action, Click) or element is None:
        return True
    return _submits(element) or (
        element.role not in _VALUED
        and element.form is None
        and any(e.role in _WRITABLE and (e.value or "").strip() for e in _fields(element, observation))
    )


def _url_verb(url: str | None) -> str | None:
    found = URL_WORDS.search(address(url)) if url else None
    return f"call {found.group().strip('/=')!r} on the site by its address" if found else None


def _click(element: Element, observation: Observation) -> str | None:
    if element.asks == "file":
        return "choose a file to upload"
    if element.role == UNREADABLE:
        return "press what cannot be read (a frame of another site, or a closed part of the page)"
    if element.role in _VALUED:
        return None
    if said := _said_by(element, observation) or _url_verb(element.href):
        return said
    name = plain(element.name)
    sends = (_submits(element) or SUBMITTING.match(name)) and not HARMLESS_BUTTON.match(name)
    return _sends(_fields(element, observation), None) if sends and element.role not in _CHOICES else None


def _chosen(option: str, observation: Observation) -> str | None:
    """What choosing in a list does: many lists act at once."""
    reasons = (_irreversible_name(name, "option", observation) for name in _readings(option))
    return next((f'{reason} ("{_short(option)}")' for reason in reasons if reason), None)


def _enter(field: Element | None, action: Write, observation: Observation) -> str | None:
    """Writing and pressing Enter: the form goes off, or a message does."""
    name = plain(field.name if field else action.target or "")
    if field is not None and (reason := _submission(field, action.text, observation)):
        return reason
    if field is None and action.text.strip() and (what := _named_personal(name)):
        return f"submit personal data ({what})"
    if action.text.strip() and MESSAGE.search(name) and not SEARCH.search(name):
        return f'send or publish "{_short(action.text)}"'
    return None


def _submission(element: Element, text: str | None, observation: Observation) -> str | None:
    """What sending the element's form does: what its first button says, and what its fields hold."""
    if element.form is None:
        return _sends((), (element, text)) if text is not None else _said_by(element, observation)
    button = next((e for e in _members(element, observation) if _submits(e)), None)
    if button is not None and (said := _said_by(button, observation)):
        return said
    written = None if text is None else (element, text)
    return _sends((e for e in _fields(element, observation) if text is None or e.mark != element.mark), written)


def _members(element: Element, observation: Observation) -> Iterable[Element]:
    return (other for other in observation.elements if other.form == element.form)


def _fields(element: Element, observation: Observation) -> list[Element]:
    """The fields sent with it: those of its form; without a form, all that are in none."""
    return [other for other in _members(element, observation) if not _submits(other)]


def _submits(element: Element) -> bool:
    return element.form is not None and element.role == "button" and element.value is None


def _sends(fields: Iterable[Element], written: tuple[Element, str] | None) -> str | None:
    held = [(field, field.value or "") for field in fields] + ([written] if written else [])
    found = dict.fromkeys(what for field, value in held if (what := _personal(field, value)))
    return f"submit personal data ({', '.join(found)})" if found else None


def _personal(field: Element, value: str) -> str | None:
    if not value.strip():
        return None
    if asked := next((what for tokens, what in PERSONAL_TOKENS if tokens.fullmatch(field.asks or "")), None):
        return asked
    if "•" in value:
        return "a password"
    if field.role not in _WRITABLE or field.role == "searchbox":
        return None
    return _named_personal(plain(field.name))


def _named_personal(name: str) -> str | None:
    return None if SEARCH.search(name) else next((what for words, what in PERSONAL if words.search(name)), None)


def _by_words(words: str, observation: Observation) -> str | None:
    """An element that is only described is judged by the description, as if it were a button's name."""
    names = [" ".join(ROLE_WORDS.sub(" ", name).split()) for name in _readings(words)]
    said = next((found for name in names if (found := _irreversible_name(name, "button", observation))), None)
    if said is None and any(SUBMITTING.match(name) for name in names):
        return _sends(observation.elements, None)
    return None if said is None else f'{said} ("{_short(words)}")'


def _readings(text: str) -> tuple[str, ...]:
    """Of the text; where it begins with no and is short, of what follows a pause in it, too ("No, delete it")."""
    names = readings(text)
    if any(NO.match(name) and len(name.split()) <= _WORDS_OF_A_BUTTON for name in names):
        parts = _PAUSE.split(visible(text))[1:]
        names += tuple(name for part in parts for name in readings(part) if not DENIED.search(name))
    return names


def _said_by(element: Element, observation: Observation) -> str | None:
    for text in filter(None, (element.name, *(element.shown or "").split("\n"))):
        names = _readings(text)
        found = (
            _irreversible_name(name, element.role, observation) or _confirmed_question(name, element, observation)
            for name in names
        )
        if said := next(filter(None, found), None) or _with_text(names, element, observation):
            return f'{said} ("{_short(visible(text))}")'
    if visible(element.name).strip() or element.shown or element.role in _CHOICES:
        return None
    fields = _fields(element, observation)
    searches = fields and all(field.role == "searchbox" or SEARCH.search(plain(field.name)) for field in fields)
    final = _sends_form(Click(mark=element.mark), observation) and not searches
    return "send a form by a button without a name" if final else None


def _with_text(names: Sequence[str], element: Element, observation: Observation) -> str | None:
    if not any(WITH_TEXT.match(name) and len(name.split()) <= _WORDS_OF_A_LINK for name in names):
        return None
    texts = (e for e in _fields(element, observation) if e.role == "textbox" and not SEARCH.search(plain(e.name)))
    return "send or publish something" if any((e.value or "").strip() for e in texts) else None


def _irreversible_name(name: str, role: str, observation: Observation) -> str | None:
    if no := NO.match(name):  # it is the word after it that is denied: "no deposit pay now", not "do not pay now"
        after = "" if role == "link" or role in _CHOICES else name[no.end() :]
        sure = (c.reason for c in COMMANDS if c.sure.search(after, 1) and not c.harmless.search(after))
        return next(sure, None)
    name = LEAD_IN.sub("", name) or name
    link = role == "link"
    letters, words = len(normalize("NFC", name)), len(name.split())  # a Korean letter is several without NFC
    short = words <= _WORDS_OF_A_LINK if link else words <= _WORDS_OF_A_BUTTON or letters <= _LETTERS_OF_A_BUTTON
    asks = QUESTION.match(name)
    inside = not link and role not in _CHOICES and not asks  # a sentence may end in the command
    for command in COMMANDS:
        if command.harmless.search(name):
            continue
        if command.sure.match(name) or (inside and command.sure.search(name)):
            return command.reason
        if role in _CHOICES or (command.in_carts_harmless and CART.search(address(observation.url))):
            continue
        if link and command.noun_too.match(name):
            continue
        said = command.verb.match(name) or command.infinitive.search(name) or (not asks and command.has_pair(name))
        if (short and said) or (letters <= _LETTERS_OF_A_SCRIPT and command.script.search(name)):
            return command.reason
    return None


def _confirmed_question(name: str, element: Element, observation: Observation) -> str | None:
    """What a bare "Yes" says yes to: the question in the words before it."""
    if not BARE_YES.fullmatch(name):
        return None
    before = observation.text.partition(f"[{element.mark}]")[0][-_BEFORE:]
    question = plain(before.rpartition("?")[0].rpartition("\n")[2]) if "?" in before else ""
    return next((command.reason for command in COMMANDS if command.asked_by(question)), None)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:59].rstrip()}…"
