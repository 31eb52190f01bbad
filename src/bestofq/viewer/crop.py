"""The part of a screenshot that shows something: pages are often empty below and beside what they say."""

from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO

from PIL import Image, ImageChops

from bestofq.core.errors import DataError
from bestofq.core.observation import Box, Observation, Screenshot
from bestofq.store.screenshots import Screenshots
from bestofq.store.store import Store

MARGIN = 20.0  # CSS pixels around it
LEAST = (420.0, 120.0)  # width and height, so that little is not blown up
WHOLE = 0.85  # of the picture: what fills more is not cropped
_NOISE = 24  # of 255: by so much JPEG may miss the colour of the background


def frame(store: Store, seen: Observation, boxes: Iterable[Box]) -> Box:
    """What to show of the page's picture, in CSS pixels: what stands out from its background, and these boxes.
    The whole of it where the file is gone or cannot be read."""
    shot = seen.screenshot
    if shot is None:
        return Box(0.0, 0.0, 0.0, 0.0)
    width, height = shot.width / shot.scale, shot.height / shot.scale
    found = _content(store.screenshots, shot)
    if found is None:
        return Box(0.0, 0.0, width, height)
    sides = [(found[0] * width, found[1] * height, found[2] * width, found[3] * height)]
    sides += [(b.x, b.y, b.x + b.width, b.y + b.height) for b in boxes if 0 <= b.x < width and 0 <= b.y < height]
    left, top = (max(0.0, min(side[at] for side in sides) - MARGIN) for at in (0, 1))
    right, bottom = (min(most, max(s[at] for s in sides) + MARGIN) for at, most in ((2, width), (3, height)))
    right, bottom = min(width, max(right, left + LEAST[0])), min(height, max(bottom, top + LEAST[1]))
    if (right - left) * (bottom - top) > WHOLE * width * height:
        return Box(0.0, 0.0, width, height)
    return Box(round(left), round(top), round(right - left), round(bottom - top))


@lru_cache(maxsize=4096)  # a picture's name is its hash
def _content(pictures: Screenshots, shot: Screenshot) -> tuple[float, float, float, float] | None:
    """Left, top, right and bottom as shares; None for a picture of one colour, and for none."""
    try:
        with Image.open(BytesIO(pictures.load(shot).data)) as image:
            image.draft("L", (image.width // 2, image.height // 2))  # JPEG is decoded at half the size
            grey = image.convert("L")
    except (OSError, DataError):
        return None
    empty = Image.new("L", grey.size, grey.getpixel((grey.width - 1, grey.height - 1)))
    found = ImageChops.difference(grey, empty).point(lambda value: 255 * (value > _NOISE)).getbbox()
    if found is None:
        return None
    left, top, right, bottom = found
    return left / grey.width, top / grey.height, right / grey.width, bottom / grey.height
