"""Solvers of tasks done by writing: texts, dates, names, sums, what a table or a paragraph says."""

import re
from collections.abc import Callable
from datetime import datetime

from experiments.oracles.advice import Advice
from experiments.oracles.miniwob.view import Unsolved, View, click, fill, matched, nth, ordinal, write


def quoted_text(view: View) -> Advice:
    (text,) = view.asked(r'"(.+)"')
    if "upper case" in view.goal:
        text = text.upper()
    elif "lower case" in view.goal:
        text = text.lower()
    return fill([(view.field(), text)], view.named("Submit", "button"))


def password_twice(view: View) -> Advice:
    """What is written in a password field is shown as dots, so the fields are filled in turn."""
    (password,) = view.asked(r'password "(.+)" into')
    fields = view.all("textbox")
    if len(view.past) < len(fields):
        return write(fields[len(view.past)], password, "the same into both")
    return click(view.named("Submit", "button"), "both are filled in")


def login(view: View) -> Advice:
    user, password = view.asked(r'username "(.+)" and the password "(.+)" into')
    if view.has("Cancel", "button"):
        return click(view.named("Cancel", "button"), "a popup is in the way")
    first, second = view.field(0), view.field(1)
    if first.value != user:
        return write(first, user, f"the username is {user}")
    if len(second.value or "") != len(password):
        return write(second, password, "then the password")
    return click(nth(view.all("button"), -1), "log in")


def _rewritten(pattern: str, stated: str, entered: str) -> Callable[[View], Advice]:
    """The field takes another format than the goal's."""

    def solve(view: View) -> Advice:
        (time,) = view.asked(pattern)
        text = datetime.strptime(time, stated).strftime(entered)
        return fill([(view.field(), text)], view.named("Submit", "button"))

    return solve


a_date = _rewritten(r"Enter (\d+/\d+/\d+)", "%m/%d/%Y", "%Y-%m-%d")
a_time = _rewritten(r"Enter (\d+:\d+ [AP]M)", "%I:%M %p", "%H:%M")


def focus(view: View) -> Advice:
    return click(view.field(), "the only field")


def focus_nth(view: View) -> Advice:
    (place,) = view.asked(r"the (\w+) input")
    return click(view.field(ordinal(place)), f"the {place} field")


def from_list(view: View) -> Advice:
    """One or several options of a list; they are called by their words, the list need not be open."""
    (names,) = view.asked(r"Select (.+) from the (?:scroll )?list")
    field = view.field()
    for name in names.split(", ") if field.role == "listbox" else [names]:
        if name not in ((field.value or "").split(", ") if field.role == "listbox" else [field.value]):
            return write(field, name, f"{name} is asked for")
    return click(view.named("Submit", "button"), "all are chosen")


def radio_and_number(view: View) -> Advice:
    place, number, where = view.asked(r'the (\w+) radio button and enter the number "(.+)" into the (\w+) textbox')
    option = nth(view.all("radio"), ordinal(place))
    if "checked" not in option.states:
        return click(option, f"the {place} radio button")
    return fill([(view.field(ordinal(where)), number)], view.named("Submit", "button"))


def from_table(view: View) -> Advice:
    (label,) = view.asked(r"the value of (.+) into")
    return fill([(view.field(), _row(view, label))], view.named("Submit", "button"))


def from_table_twice(view: View) -> Advice:
    """Each field stands under its label, `Religion:`."""
    labels = [line.removesuffix(":") for line in view.lines if line.endswith(":")]
    wanted = [(view.field(index), _row(view, label)) for index, label in enumerate(labels)]
    return fill(wanted, view.named("Submit", "button"))


def _row(view: View, label: str) -> str:
    for line in view.lines:
        name, bar, value = line.partition(" | ")
        if bar and name == label:
            return value
    raise Unsolved(f"the table has no row {label!r}")


def arithmetic(view: View) -> Advice:
    left, sign, right = matched(r"(-?\d+) ([-+x]) (-?\d+) =", view.text)
    a, b = int(left), int(right)
    result = {"+": a + b, "-": a - b, "x": a * b}[sign]
    return fill([(view.field(), str(result))], view.named("Submit", "button"))


def algebra(view: View) -> Advice:
    left, sign, right, total = matched(r"(\w+) ([-+]) (\w+) = (-?\d+)", view.text)
    if sign == "+":
        x = int(total) - int(right if left == "x" else left)
    else:
        x = int(total) + int(right) if left == "x" else int(left) - int(total)
    return fill([(view.field(), str(x))], view.named("Submit", "button"))


def word_by_place(view: View) -> Advice:
    (place,) = view.asked(r"the (\w+) word")
    paragraph = max((line for line in view.lines if "[" not in line), key=len)
    word = re.sub(r"[^a-zA-Z0-9]", "", paragraph.split()[ordinal(place)])
    return fill([(view.field(), word)], view.named("Submit", "button"))


def last_word(view: View) -> Advice:
    text, field = view.field(0), view.field(1)
    word = re.sub(r"[^a-zA-Z0-9]", "", (text.value or "").split()[-1])
    return fill([(field, word)], view.named("Submit", "button"))


def text_below(view: View) -> Advice:
    shown = next(line for line in view.lines if "[" not in line)
    return fill([(view.field(), shown)], view.named("Submit", "button"))


def copy(view: View) -> Advice:
    """From the one text area that holds something, or the one named, into the field that holds nothing."""
    fields = view.all("textbox")
    place = re.search(r"the (\d\w\w) text area", view.goal)
    source = nth(fields, ordinal(place[1])) if place else next(f for f in fields if f.name == "" and _long(f.value))
    target = nth(fields, -1) if place else next(f for f in fields if f is not source)
    return fill([(target, source.value or "")], view.named("Submit", "button"))


def _long(value: str | None) -> bool:
    return value is not None and value.endswith(" ")


def movies(view: View) -> Advice:
    """The labels stand before, over or under their fields."""
    genre, director, year = view.asked(r"for (.+) movies directed by (.+) from year (\d+)")
    labelled = (("genre", genre), ("director", director), ("year|released", year))
    return fill([(view.beside(label), text) for label, text in labelled], nth(view.all("button", "clickable"), -1))


def guess(view: View) -> Advice:
    """Halves what its own guesses have left between 0 and 9; what the last one was answered stands in a line."""
    guesses = [int(matched(r'"(\d+)"', label)[0]) for label in view.past if label.startswith("write")]
    if guesses and view.past[-1].startswith("write"):
        return click(view.named("Submit", "button"), f"is it {guesses[-1]}?")
    low, high = 0, 9
    for guess, higher in zip(guesses, [*map(int.__gt__, guesses[1:], guesses), "higher" in view.text], strict=False):
        low, high = (guess + 1, high) if higher else (low, guess - 1)
    return write(view.field(), str((low + high) // 2), f"between {low} and {high}")


def spinner(view: View) -> Advice:
    (number,) = view.asked(r"Select (-?\d+) with")
    return fill([(view.all("spinbutton")[0], number)], view.named("Submit", "button"))
