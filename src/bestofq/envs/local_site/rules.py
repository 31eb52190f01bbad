"""What a local site is made of. All its records are values: an episode is put back by its earlier record."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from bestofq.core.actions import Action
from bestofq.core.observation import Observation, Split, Task
from bestofq.envs.local_site.page import Page

VisitT = TypeVar("VisitT")
"""The site's record of one episode, immutable."""
ViewT = TypeVar("ViewT")
"""Where a visitor is, as the site names it."""
ViewT_co = TypeVar("ViewT_co", covariant=True)


class Wording(NamedTuple):
    """What a text environment says in `Observation.error`, by default as a browser. A sentence may name the element by
    {mark}, {name} and {role}, the number of elements by {count}, an address by {url}."""

    no_way_back: str = "There is no page to go back to."
    no_element: str = "There is no element [{mark}] on this page."
    no_field: str = "Element [{mark}] is no text field."
    no_form: str = "Element [{mark}] belongs to no form."
    no_address: str = "{url} is not on this site: its addresses begin with /."


class Server(Protocol[VisitT, ViewT_co]):
    """Answers requests; keeps nothing itself. Addresses begin behind the visit's root, with `/`."""

    def address(self, url: str) -> str | None:
        """The address as the site itself writes it; None where it is none of this site's."""

    def view(self, visit: VisitT, url: str) -> ViewT_co:
        """What stands at an address."""

    def get(self, visit: VisitT, url: str) -> tuple[VisitT, Page]:
        """The visit after its page at an address was shown, and that page."""

    def post(self, visit: VisitT, url: str, sent: Mapping[str, str]) -> tuple[VisitT, str]:
        """The visit after a form was sent to an address, and the address of the answer."""


class Rules(Protocol[VisitT, ViewT_co]):
    """A site with its tasks: a server for each split, what ends an episode, what it earns."""

    name: str  # of the suite of tasks
    step_limit: int
    style: str  # CSS of every page
    wording: Wording

    def tasks(self, split: Split) -> Sequence[Task]:
        """In an order in which the first are a fair sample. InputError where the split has none."""

    def irreversible(self, observation: Observation, action: Action) -> bool:
        """Whether the action cannot be taken back on a site of somebody else's."""

    def server(self, split: Split) -> Server[VisitT, ViewT_co]: ...

    def visit(self, task: Task) -> VisitT:
        """The record at the beginning of an episode."""

    def ended(self, visit: VisitT) -> bool:
        """Whether the visitor has done what ends an episode."""

    def reward(self, task: Task, visit: VisitT) -> float:
        """What the visit has earned, in [0, 1]."""

    def reply(self, task: Task, question: str) -> str | None:
        """What the task's user answers; None where there is no user."""
