"""The page as an agent reads it. `snapshot.js` walks the page once, by what `dom.js` knows of hostile pages. This
module makes an observation of its answer.

The text has a line per block of the page and per `<br>`, without empty lines. White space is collapsed, and ` | `
separates the cells of a table row. An interactive element is written in its place, its mark last:

    {name}{states} [{mark}]                 Add to cart [7]
    {name}: "{value}"{states} [{mark}]      Search: "red shoes" [2]      fields and lists

An element without a name is written by its role. States are those that matter to a reader, ` (checked, disabled)`. The
words of a check box's label are its name and not written twice. The inside of an interactive element is written only if
it holds further interactive elements; its words are left out if its name has all of them. Pictures are their
alternative text and the links of their map. A frame of another origin follows a line `(frame: https://origin)`; of a
frame in perspective, or that does not answer, there is that line only (frames.py).

Marks are 1 … n in the order of the flat tree, with open shadow roots and frames of the same origin in place; those of
frames of other origins follow. Page words
that look like a mark are written in round brackets (`core/page_text.py`). Invisible parts are left out, and of a large
page the parts far from the viewport. The text says so.
"""

import hashlib
import io
from importlib.resources import files
from typing import Any, NotRequired, TypedDict

from PIL import Image

from bestofq.core.observation import Element, Observation, Screenshot

SOURCE = "\n".join(
    files("bestofq.browser").joinpath(name).read_text("utf-8")
    for name in ("dom.js", "snapshot.js", "rest.js", "act.js")
)
LISTENERS = files("bestofq.browser").joinpath("listeners.js").read_text("utf-8")
"""A script for the page's own world: which elements listen to clicks."""
ROOM = "\ufdd1"
"""Where snapshot.js leaves room for the words of a frame of another origin."""

FIELDS = ("role", "name", "value", "box", "states", "asks", "form", "shown", "href")
"""Of an `Element`, in the order in which snapshot.js gives them."""


class PageSnapshot(TypedDict):
    """What `bestofq.snapshot` answers."""

    url: str
    title: str
    text: str
    elements: list[list[Any]]
    """`FIELDS` of each."""
    frames: list[list[float]]
    """Of other origins: the matrix [a, b, c, d, e, f] from its points to those of the viewport."""
    size: list[float]
    """Of the viewport."""
    refusal: NotRequired[str]
    """What the page's validation said to the last click."""


def observe(page: PageSnapshot) -> Observation:
    """The observation of a page that is its only tab."""
    elements = tuple(
        Element(mark=mark, **dict(zip(FIELDS, row, strict=True))) for mark, row in enumerate(page["elements"], start=1)
    )
    title = page["title"]
    return Observation(
        url=page["url"], title=title, text=page["text"].replace(ROOM, ""), elements=elements, tabs=(title,)
    )


def jpeg(data: bytes) -> Screenshot:
    """A screenshot with one pixel for each CSS pixel; its size is read from its header."""
    digest = hashlib.sha256(data).hexdigest()
    with Image.open(io.BytesIO(data)) as picture:
        width, height = picture.size
    return Screenshot(sha256=digest, media_type="image/jpeg", width=width, height=height, data=data)
