"""What visitors of the shop and of the booking site do who do not follow the oracle."""

import random
import re
from collections.abc import Sequence

from bestofq.core.actions import Action, Click, Write
from bestofq.core.observation import Observation
from bestofq_sites.booking.goals import BookingGoal
from bestofq_sites.booking.pages import COMPLETE, DETAILS
from bestofq_sites.webshop.pages import BUY, Item, Shop, ShopResults, Start, View, link_name
from experiments.oracles.webshop import Oracle


def stray(
    shop: Shop, view: View | None, oracle: Oracle, observation: Observation, rng: random.Random, *, ending: bool = False
) -> Action:
    """Something plausible but unadvised: another product, another option, a weaker query, a wrong turn."""
    if isinstance(view, Start):
        words = oracle.query.split()
        kept = [w for w in words if rng.random() < 0.6] or words[-1:]
        return Write(mark=1, text=rng.choice((oracle.type, " ".join(kept), oracle.query)), enter=True)
    links = [e for e in observation.elements if ending or not e.name.startswith(BUY)]
    if isinstance(view, ShopResults) and rng.random() < 0.8:
        shown = shop.shown(view)
        alike = [product for product in shown if product.query == oracle.type]
        names = set(map(link_name, alike if alike and rng.random() < 0.6 else shown))
        links = [e for e in links if e.name in names] or links
    if isinstance(view, Item) and rng.random() < 0.6:
        links = [e for e in links if e.role in ("radio", "button")] or links
    return Click(mark=rng.choice(links).mark)


def hasty(view: View | None, observation: Observation) -> Action | None:
    """What somebody does who reads nothing: open the first result, buy without choosing; None elsewhere."""
    match view:
        case ShopResults():
            return next((Click(mark=e.mark) for e in observation.elements if "$" in e.name), None)
        case Item():
            return next((Click(mark=e.mark) for e in observation.elements if e.name.startswith(BUY)), None)
    return None


def hasty_guest(observation: Observation, goal: BookingGoal, seatings: Sequence[str]) -> Action | None:
    """The booking site's: looks for a table without setting anything, takes the first time and seating there are, and
    completes with his details; None elsewhere."""
    marks = {element.name: element.mark for element in observation.elements}
    for wanted in ("Find a table", *seatings):
        if wanted in marks:
            return Click(mark=marks[wanted])
    if COMPLETE in marks:
        for field, text in zip(DETAILS, (goal.name, goal.phone, goal.email), strict=True):
            if observation.elements[marks[field] - 1].value != text:
                return Write(mark=marks[field], text=text)
        return Click(mark=marks[COMPLETE])
    return next(
        (Click(mark=e.mark) for e in observation.elements if e.role == "link" and _TIME.fullmatch(e.name)), None
    )


def stray_guest(observation: Observation, rng: random.Random) -> Action:
    """Any link, or a button that completes nothing."""
    free = [e for e in observation.elements if e.role in ("link", "button") and e.name != COMPLETE]
    return Click(mark=rng.choice(free).mark)


_TIME = re.compile(r"\d{1,2}:\d\d [AP]M")
