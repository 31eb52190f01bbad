"""Solvers of tasks done by clicking: buttons, links, boxes, tabs, pages of a list."""

import re
from collections.abc import Callable

from bestofq.core.actions import Wait
from bestofq.core.observation import Element
from experiments.oracles.advice import Advice
from experiments.oracles.miniwob.view import LINKS, Unsolved, View, click, matched, nth, ordinal, write


def only_button(view: View) -> Advice:
    return click(nth(view.all("button"), 0), "the only button")


def _asked_for(pattern: str, *roles: str) -> Callable[[View], Advice]:
    """Clicks the element that the goal names."""

    def solve(view: View) -> Advice:
        (name,) = view.asked(pattern)
        return click(view.named(name, *roles), f"{name} is asked for")

    return solve


quoted = _asked_for(r'"(.+)"', "button", *LINKS)
button_by_word = _asked_for(r"button (\w+)", "button")
tab = _asked_for(r"Click on (.+)\.$", "link")


def buttons_in_turn(view: View) -> Advice:
    names = re.findall(r"button (\w+)", view.goal)
    name = names[min(len(view.past), len(names) - 1)]
    return click(view.named(name, "button"), f"{name} is next")


def dialog(view: View) -> Advice:
    """In a dialog the x in its corner is called Close."""
    (name,) = view.asked(r'"(.+)"')
    return click(view.named("Close" if name == "x" else name, "button"), f"{name} closes it")


def checkboxes(view: View) -> Advice:
    (names,) = view.asked(r"Select (.+) and click Submit")
    wanted = [] if names == "nothing" else names.split(", ")
    for box in view.all("checkbox"):
        if ("checked" in box.states) != (box.name in wanted):
            return click(box, f"{box.name} is {'to be' if box.name in wanted else 'not to be'} ticked")
    return click(view.named("Submit", "button"), "all are ticked")


def radio(view: View) -> Advice:
    (name,) = view.asked(r"Select (.+) and click Submit")
    option = view.named(name, "radio")
    if "checked" not in option.states:
        return click(option, f"{name} is asked for")
    return click(view.named("Submit", "button"), f"{name} is chosen")


def widget(view: View) -> Advice:
    """A text area and a text field have the same role; the area is the higher one."""
    (kind,) = view.asked(r'"(.+)" widget')
    if kind not in ("text", "textarea"):
        return click(nth(view.all(kind), 0), f"a {kind}")
    for field in view.all("textbox"):
        if field.box is not None and (field.box.height > 24) == (kind == "textarea"):
            return click(field, f"a {kind}")
    raise Unsolved(f"no {kind}")


def link_behind_tabs(view: View) -> Advice:
    """Opens one tab after another until the link is there."""
    (name,) = view.asked(r'"(.+)"')
    if view.has(name, "clickable"):
        return click(view.named(name, "clickable"), f"{name} is here")
    for other in view.all("link")[1:]:
        if f"click link {other.name}" not in view.past:
            return click(other, f"{name} is not here, next tab")
    raise Unsolved(f"{name!r} is behind no tab")


def section(view: View) -> Advice:
    heading = nth(view.all("tab"), 0)
    if not view.past:
        return click(heading, "open the section")
    return click(view.named("Submit", "button"), "the section is open")


def link_in_sections(view: View) -> Advice:
    """Opens one section after another until the link is there; then again, with a wait for each to slide open, for on a
    slow machine the next click closes a section before its links are to be seen."""
    (name,) = view.asked(r'"(.+)"')
    if view.has(name, "clickable"):
        return click(view.named(name, "clickable"), f"{name} is here")
    headings = view.all("tab")
    opened = {heading.name: sum(p.startswith(f"click tab {heading.name}") for p in view.past) for heading in headings}
    if all(opened.values()) and view.past[-1] != "wait 1":
        return Advice(f"{name} may be still to appear", Wait())
    for times in (1, 2):
        for heading in headings:
            if opened[heading.name] < times:
                return click(heading, f"{name} is not here, open {heading.name}")
    raise Unsolved(f"{name!r} is in no section")


def odd_or_even(view: View) -> Advice:
    """Each number stands between its two buttons; which are pressed is not to be seen, so they are pressed in turn."""
    numbers = [int(line) for line in view.lines if re.fullmatch(r"-?\d+", line)]
    if len(view.past) < len(numbers):
        number = numbers[len(view.past)]
        word = "Odd" if number % 2 else "Even"
        return click([e for e in view.all("button") if e.name == word][len(view.past)], f"{number} is {word.lower()}")
    return click(view.named("Submit", "button"), "all are marked")


def greatest(view: View) -> Advice:
    if not view.past:
        card = max(view.all("clickable"), key=lambda element: int(element.name))
        return click(card, f"{card.name} is the greatest")
    return click(view.named("Submit", "button"), "it is picked")


def phone_book(view: View) -> Advice:
    name, what = view.asked(r"Find (.+) in the contact book and click on their (\w+)")
    if name in view.lines:
        place = next(line for line in view.lines if line.lower().startswith(what))
        (mark,) = matched(r"\[(\d+)\]$", place)
        return click(view.elements[int(mark) - 1], f"the {what} of {name}")
    return click(view.named(">", "link"), f"not {name}, next page")


def search_engine(view: View) -> Advice:
    """Three results a page; the pages' own links are numbers and words."""
    query, place = view.asked(r'enter "(.+)" and press "Search", then find and click the (\w+) search result')
    if view.field().value != query:
        return write(view.field(), query, f"search for {query}")
    links = view.all("link")
    if not links:
        return click(view.named("Search", "button"), "search")
    page, row = divmod(ordinal(place), 3)
    if page and f"click link {page + 1}" not in view.past:
        return click(view.named(str(page + 1), "link"), f"the {place} is on page {page + 1}")
    results = [link for link in links if not re.fullmatch(r"\d|<|>|First|Last", link.name)]
    return click(nth(results, row), f"the {place} result")


def generate_number(view: View) -> Advice:
    shown = next((int(line) for line in view.lines if re.fullmatch(r"\d+", line)), None)
    if shown is not None and _fits(shown, view.goal):
        return click(view.named("Submit", "button"), f"{shown} fits")
    return click(view.named("Generate", "button"), "a number is needed" if shown is None else f"{shown} does not fit")


def _fits(number: int, goal: str) -> bool:
    if " even " in goal or " odd " in goal:
        return number % 2 == int(" odd " in goal)
    word, limit = matched(r"(less|greater) than (\d+)", goal)
    return number < int(limit) if word == "less" else number > int(limit)


def ticket(view: View) -> Advice:
    """Each ticket: a line `10h 30m`, then its button `Book for $1045`."""
    quality, what = view.asked(r"with the (.+) (\w+)\.")
    tickets: list[tuple[int, Element]] = []
    minutes = 0
    for line in view.lines:
        if time := re.fullmatch(r"(?:(\d+)h)? ?(?:(\d+)m)?", line):
            minutes = 60 * int(time[1] or 0) + int(time[2] or 0)
        elif book := re.fullmatch(r"Book for \$(\d+) \[(\d+)\]", line):
            tickets.append((int(book[1]) if what == "cost" else minutes, view.elements[int(book[2]) - 1]))
    best = (min if quality in ("cheapest", "shortest") else max)(tickets, key=lambda ticket: ticket[0])
    return click(best[1], f"the {quality} {what}")


def december(view: View) -> Advice:
    """A read-only field opens a calendar at its last month."""
    (day,) = view.asked(r"Select 12/(\d+)/")
    if view.field().value:
        return click(view.named("Submit", "button"), "the date is chosen")
    if not view.past:
        return click(view.field(), "open the calendar")
    return click(view.named(str(int(day)), "link"), f"day {int(day)}")


def mail(view: View) -> Advice:
    """Opens the email, whose bin and star are named by their pictures' files."""
    (sender,) = view.asked(r"email by (\S+) and click")
    if not view.past:
        entries = [element for element in view.all("clickable") if element.name.startswith(f"{sender} ")]
        return click(nth(entries, 0), f"open {sender}'s")
    icon = "delete" if "trash icon" in view.goal else "star"
    return click(view.named(icon, "clickable"), f"the {icon} of {sender}'s")
