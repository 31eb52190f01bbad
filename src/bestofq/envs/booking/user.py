"""The user of a task, scripted: answers what an agent asks, from the goal."""

import re

from bestofq.envs.booking.goals import Goal
from bestofq.envs.booking.writing import clock, people, short_day

_SEATING = re.compile(r"seat|sit\b|indoor|outdoor|inside|outside|terrace|booth|\bbar\b|prefer", re.IGNORECASE)
_TIME = re.compile(r"time|when|date|day|earlier|later|taken|free|available", re.IGNORECASE)
_GUEST = re.compile(r"name|phone|number|mail|detail|contact", re.IGNORECASE)
_PARTY = re.compile(r"how many|people|party|guests", re.IGNORECASE)


def reply(goal: Goal, question: str) -> str:
    """What the user says; the first kind of question that fits is answered."""
    if _SEATING.search(question):
        return f"{goal.seating}, please." if goal.seating else "Any seating is fine."
    if _PARTY.search(question):
        return f"For {people(goal.party)}."
    if _GUEST.search(question):
        return f"{goal.name}, {goal.phone}, {goal.email}."
    if _TIME.search(question):
        return f"{short_day(goal.day)} at {clock(goal.time)}, or the nearest free time."
    return "I have told you all I know."
