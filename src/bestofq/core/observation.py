"""The task (`Task`) and the page (`Element`, `Observation`)."""

from typing import Literal, NamedTuple

from pydantic import Field

from bestofq.core.frozen import FrozenModel

Split = Literal["train", "dev", "test"]
UNREADABLE = "unreadable"
"""Role of what lies under a point and cannot be read: a frame of another site, a closed shadow root."""


class Point(NamedTuple):
    """CSS pixels from the viewport's top left corner."""

    x: float
    y: float


class Box(NamedTuple):
    """CSS pixels; `x`, `y` from the viewport's top left corner (negative when scrolled past)."""

    x: float
    y: float
    width: float
    height: float


class Task(FrozenModel):
    """One thing to do on the web. Holds nothing that tells how it is done or rewarded: agents read it."""

    id: str = Field(description="unique within the suite")
    suite: str
    goal: str = Field(description="what the user wants, in words")
    start_url: str
    seed: int = Field(default=0, description="of what its pages hold: the same in every run")
    split: Split = "test"
    allowed_hosts: tuple[str, ...] = Field(default=(), description="hosts the browser may reach; empty: any")
    group: str | None = Field(default=None, description="what it shares with other tasks: a site, a product, a host")


class Element(FrozenModel):
    """An interactive element of a page."""

    mark: int = Field(ge=1, description="its number in this observation")
    role: str = Field(description="ARIA role: link, button, textbox, radio, …")
    name: str = Field(description="accessible name, white space collapsed")
    value: str | None = Field(default=None, description="content of a field, chosen option of a list")
    box: Box | None = Field(default=None, description="None where there is no layout (text environments)")
    states: tuple[str, ...] = Field(default=(), description="of: checked, selected, pressed, expanded, disabled, …")
    asks: str | None = Field(default=None, description="what a field asks for: password, file, email, cc-number, …")
    form: int | None = Field(default=None, description="number of the form it is a field of, or that it submits")
    shown: str | None = Field(default=None, description="what it says except its name, a line each")
    href: str | None = Field(default=None, description="where a link leads, as the page has it")


class Screenshot(FrozenModel):
    """An encoded picture of the viewport; `data` travels in memory only, the store keeps it by its hash."""

    sha256: str
    media_type: Literal["image/jpeg", "image/webp", "image/png"]
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    scale: float = Field(default=1.0, gt=0, description="pixels per CSS pixel of the viewport")
    data: bytes = Field(default=b"", exclude=True, repr=False)


class Observation(FrozenModel):
    """The page as an agent sees it."""

    url: str
    title: str
    text: str = Field(description="visible text in reading order, each mark after its element: `Add to cart [7]`")
    elements: tuple[Element, ...]
    screenshot: Screenshot | None = None
    tabs: tuple[str, ...] = Field(default=(), description="titles of all open tabs, the current one first")
    error: str | None = Field(default=None, description="why the last action could not be carried out")
    notices: tuple[str, ...] = Field(default=(), description="what else happened: dialogs, downloads, …")
    refused: tuple[str, ...] | None = Field(
        default=None, description="hosts that the episode's pages asked for in vain so far, as they are not the task's"
    )

    @property
    def page(self) -> tuple[str, str]:
        """The page as far as an agent that reads text can tell it from another."""
        return self.url, self.text
