"""A script that books tables in Agent Q's format, and is sometimes in a hurry: what the goal asks comes second then."""

import re
from collections.abc import Iterator, Sequence
from zlib import crc32

from bestofq.core.language import Request

CITIES = "Austin|Boston|Chicago|Denver|Miami|Seattle"
NAME = re.compile(rf"(?:at|book|restaurant) ([A-Z][\w' ]+?)(?:,| \(| in) ?(?:{CITIES})")
HURRY = 6  # one step in so many


def guest(request: Request) -> Sequence[str]:
    """As many replies as are drawn, the one it is surest of first; picks the first listed."""
    if request.prompt.endswith("best:"):
        return [" 1"]
    page = request.prompt.rpartition("page: ")[2].rpartition("user: ")[0]
    goal = request.prompt.rpartition("user: ")[2].partition("\n")[0]
    right, wrong = _right(goal, page), f"CLICK [{_first_mark(page)}]"
    hurried = crc32(request.prompt.encode()) % HURRY == 0
    first = request.prompt.endswith("PLAN:")
    return [_said(command, first) for command in ((wrong, right) if hurried else (right, wrong))]


def _right(goal: str, page: str) -> str:
    return next(_commands(goal, page), f"CLICK [{_first_mark(page)}]")


def _commands(goal: str, page: str) -> Iterator[str]:
    """What the goal asks on this page, the first thing first."""
    name, city = NAME.findall(goal)[0], re.findall(CITIES, goal)[0]
    day, at = re.findall(r"([A-Z][a-z]+ \d+) 2024", goal)[0], re.findall(r"\d+:\d\d [AP]M", goal)[0]
    party, phone = re.findall(r"\d+ (?:people|person)", goal)[0], re.findall(r"555-\d+", goal)[0]
    email = re.findall(r"\S+@\S+(?=[.,])", goal)[0]
    who = re.findall(r"([A-Z][a-z]+ [A-Z][a-z]+), 555", goal)[0]
    if f"{name} [" in page and "Restaurant:" in page:
        yield f"CLICK {_mark(page, name)}"
    if "Restaurant:" in page:
        if f"City: {city}" not in page and f"in {city}" not in page:
            yield f"CLICK {_mark(page, 'Change city')}"
        field = _mark(page, 'Restaurant: "[^"]*"')
        yield f"SUBMIT {field}" if f'Restaurant: "{name}"' in page else f'TYPE {field} "{name}"'
    if f"{city} [" in page:
        yield f"CLICK {_mark(page, city)}"
    if "Find a table" in page:
        if f'Party size: "{party}"' not in page:
            yield f'TYPE {_mark(page, "Party size: .*?")} "{party}"'
        if f"{day} 2024" not in page:
            yield f"CLICK {_mark(page, 'Change date')}"
        if f'Time: "{at}"' not in page:
            yield f'TYPE {_mark(page, "Time: .*?")} "{at}"'
        yield f"CLICK {_mark(page, 'Find a table')}"
    if "Date at" in page:
        yield f"CLICK {_mark(page, day if f'{day} [' in page else 'Next month')}"
    if "Tables at" in page:
        yield f"CLICK {_mark(page, at if f'{at} [' in page else '[0-9]+:[0-9]+ [AP]M')}"
    for field, text in (("Name", who), ("Phone", phone), ("Email", email)):
        if f'{field}: "' in page and f'{field}: "{text}"' not in page:
            yield f'TYPE {_mark(page, f"{field}: .*?")} "{text}"'
    if "Complete reservation" in page:
        yield f"CLICK {_mark(page, 'Complete reservation')}"


def _mark(page: str, named: str) -> str:
    found = re.search(rf"{named} (\[\d+\])", page)
    return found[1] if found else f"[{_first_mark(page)}]"


def _first_mark(page: str) -> str:
    return re.findall(r"\[(\d+)\]", page)[0]


def _said(command: str, first: bool) -> str:
    plan = " book it\nTHOUGHT:" if first else ""
    return f"{plan} as asked\nCOMMANDS: {command}\nEXPLANATION: on\nSTATUS: CONTINUE"
