"""Where a tab is, and how to be there again: its pages, and what is written into the fields of the current one.

Only what the browser holds of a site; what the site itself remembers is the site's to put back, before `put_back`.
"""

from pydantic import Field

from bestofq.browser.actions import begin_at, write
from bestofq.browser.session import Session
from bestofq.core.actions import Write
from bestofq.core.noun import Noun
from bestofq.core.observation import Observation

_FIELDS = ("textbox", "searchbox")


class Place(Noun):
    """A tab's place, read with its observation."""

    pages: tuple[str, ...] = Field(description="addresses that `go_back` leads through, the current one last")
    scrolled: float = Field(description="CSS pixels down the page")
    observation: Observation


async def place_of(session: Session, observation: Observation) -> Place:
    """Where the session is; `observation` is the last made of it."""
    tab = session.tab
    history = await tab.send("Page.getNavigationHistory")
    entries = history["entries"][tab.base_entry : history["currentIndex"] + 1]
    return Place(
        pages=(*session.earlier, *(entry["url"] for entry in entries)),
        scrolled=await session.evaluate("scrollY"),
        observation=observation,
    )


async def put_back(session: Session, place: Place) -> None:
    """Shows a place of this session again in a single tab; marks mean the elements of its observation."""
    while await session.close_tab():
        pass
    *earlier, url = place.pages
    await begin_at(session, url)
    session.earlier = tuple(earlier)
    await session.settle()
    fresh = {element.mark: element.value for element in (await session.snapshot()).elements}
    for element in place.observation.elements:
        if element.role in _FIELDS and element.value != fresh.get(element.mark):
            text = element.value or ""
            await write(session.tab, Write(mark=element.mark, text=text), text)
    await session.evaluate(f"scrollTo(0, {place.scrolled})")
