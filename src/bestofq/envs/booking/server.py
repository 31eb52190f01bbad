"""What the site answers, in the browser and as text."""

from collections.abc import Mapping
from dataclasses import replace

from bestofq.envs.booking.pages import NOT_FOUND, Pages
from bestofq.envs.booking.restaurants import Directory
from bestofq.envs.booking.tables import Tables
from bestofq.envs.booking.views import Chosen, Done, View, from_url, to_url
from bestofq.envs.booking.visits import Details, Reservation, Visit
from bestofq.envs.local_site.page import Page


class Server:
    """`local_site.rules.Server`: answers requests of visits to one part of the restaurants; keeps nothing itself."""

    def __init__(self, directory: Directory, tables: Tables) -> None:
        self.directory = directory
        self.tables = tables
        self._pages = Pages(directory, tables)

    def address(self, url: str) -> str | None:
        return url if url.startswith("/") else None

    def view(self, visit: Visit, url: str) -> View | None:
        """What stands at an address; after the reservation nothing but its confirmation."""
        return from_url(url, self.directory, self.tables) if visit.reservation is None else Done()

    def get(self, visit: Visit, url: str) -> tuple[Visit, Page]:
        """The page at an address, and the visit after it was shown."""
        view = self.view(visit, url)
        if view is None:
            return visit, NOT_FOUND
        if isinstance(view, Chosen) and view.page == "details":
            visit = replace(visit, held=view.table)
        return visit, self._pages.page(view, visit)

    def post(self, visit: Visit, url: str, sent: Mapping[str, str]) -> tuple[Visit, str]:
        """Take a details form, sent from its page: reserve the table, or ask again. The visit, and where to go on."""
        view = self.view(visit, url)
        if not isinstance(view, Chosen) or view.page != "details":
            return visit, url
        keys = ("name", "phone", "email")
        details = Details(**{key: " ".join(sent.get(key, "").split()) for key in keys})
        if details.wanting:
            return replace(visit, draft=details), url
        return replace(visit, reservation=Reservation(table=view.table, details=details)), to_url(Done())
