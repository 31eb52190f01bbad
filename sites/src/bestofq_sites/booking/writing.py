"""How times, days and parties are written on pages and in goals."""

from datetime import date, time

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def clock(at: time) -> str:
    """`7:30 PM`"""
    return f"{at.hour % 12 or 12}:{at.minute:02d} {'PM' if at.hour >= 12 else 'AM'}"


def people(party: int) -> str:
    """`4 people`"""
    return "1 person" if party == 1 else f"{party} people"


def short_day(day: date) -> str:
    """`May 22`"""
    return f"{MONTHS[day.month - 1]} {day.day}"


def long_day(day: date) -> str:
    """`Wed, May 22 2024`"""
    return f"{DAYS[day.weekday()]}, {short_day(day)} {day.year}"
