"""Pictures in the size that a chat model's own processor leaves alone, with the exact way back to the page.

An endpoint that resizes a picture answers in pixels of one that nobody here has seen. So pictures are resized on this
side, by the rule of the models' processors, and each knows how its pixels lie on the page.
"""

import asyncio
import io
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Literal, Self

from PIL import Image
from pydantic import Field, model_validator

from bestofq.core.errors import DataError, ReplyError
from bestofq.core.noun import Noun
from bestofq.core.observation import Point, Screenshot

Coordinates = Literal["pixels", "thousandths"]
FLOOR = 200_000  # pixels below which no picture is halved: at 596 x 335 the text of a page is hardly read any more
KEPT = 64  # pictures in a cache
QUALITY = 90  # of JPEG and WebP


class PictureLimits(Noun):
    """What a model's processor takes as it is, and what a point in its reply means."""

    least: int = Field(default=1, ge=1, description="pixels of a picture")
    most: int = Field(default=1_048_576, ge=1, description="pixels of a picture")
    factor: int = Field(default=1, ge=1, description="both sides are multiples of so many pixels")
    coordinates: Coordinates = Field(default="pixels", description="of the picture as sent; or 0 to 1000 on each axis")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.most < max(self.least, self.factor**2):
            raise ValueError(f"{self.most} pixels at most do not fit {self.least} at least, sides in {self.factor}s")
        return self

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The size to send a picture in, the aspect ratio as near as multiples permit: what `smart_resize` of the
        Qwen-VL processors gives (transformers, `image_processing_qwen2_vl.py`). A size it gives is its own, save for
        strips longer than `most / factor²` times their width, which keep one step and more pixels than `most`."""
        step = self.factor
        wide, high = round(width / step) * step, round(height / step) * step
        if wide * high > self.most:
            shrink = sqrt(width * height / self.most)
            wide, high = (max(step, floor(side / shrink / step) * step) for side in (width, height))
        elif wide * high < self.least:
            grow = sqrt(self.least / (width * height))
            wide, high = (ceil(side * grow / step) * step for side in (width, height))
        return wide, high

    def within(self, most: int | None) -> "PictureLimits":
        """The same with no more pixels than `most`, as far as the other limits permit."""
        if most is None:
            return self
        return self.model_copy(update={"most": min(self.most, max(most, self.least, self.factor**2))})


FAMILIES: Mapping[str, PictureLimits] = {  # by a part of the name, letters and digits only; the first that fits
    # factors, Qwen2.5-VL's pixels and the coordinates were checked in published sources; Qwen3-VL's, Holo1's and
    # Holo3's pixels and Gemini's coordinates were not: set `chat.pixels_most` and the like where they differ
    "qwen3vl": PictureLimits(least=65_536, most=16_777_216, factor=32, coordinates="thousandths"),
    "qwen25vl": PictureLimits(least=3_136, most=12_845_056, factor=28),
    "qwen2vl": PictureLimits(least=3_136, most=12_845_056, factor=28, coordinates="thousandths"),
    # Holo1 and Holo1.5 are tuned from Qwen2.5-VL and answer in pixels; later ones in thousandths (hub.hcompany.ai)
    "holo1": PictureLimits(least=3_136, most=12_845_056, factor=28),
    "holo3": PictureLimits(least=65_536, most=16_777_216, factor=32, coordinates="thousandths"),
    # ai.google.dev: image understanding, points and boxes
    "gemini": PictureLimits(coordinates="thousandths"),
}


def limits_of(model: str) -> PictureLimits:
    """What is known of a model by its name; for others 2**20 pixels at most, in any multiples, answers in pixels."""
    name = "".join(filter(str.isalnum, model.lower()))
    return next((limits for part, limits in FAMILIES.items() if part in name), PictureLimits())


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A screenshot as it is sent.

    A point is (x, y) from the top left corner, in pixels of the sent picture or thousandths of its sides. The map to
    CSS pixels is linear and exact; what a model loses by answering in whole numbers is at most half of one, so the
    middle of a target of s x s CSS pixels is always hit while the picture has more than 1/s pixels per CSS pixel: for
    8 x 8, a page of 1280 x 720 sent larger than 160 x 90. In thousandths: on pages less than 8000 CSS pixels wide.
    """

    media_type: str
    data: bytes
    width: int  # pixels
    height: int
    css_width: float  # of the viewport
    css_height: float
    limits: PictureLimits

    @property
    def span(self) -> tuple[int, int]:
        """The largest x and y a reply may hold."""
        return (1000, 1000) if self.limits.coordinates == "thousandths" else (self.width, self.height)

    @property
    def half(self) -> int | None:
        """Pixels at most, for the same in half its size; None where it would be too small to be of use."""
        half = self.width * self.height // 2
        return half if half >= max(FLOOR, self.limits.least) else None

    def to_css(self, x: float, y: float) -> Point:
        """The point of the viewport, CSS pixels. ReplyError, in words for the model, when it is outside the picture."""
        across, down = self.span
        if not (0 <= x <= across and 0 <= y <= down):
            raise ReplyError(
                f"the point ({x!s:.9}, {y!s:.9}) is outside the picture, whose corner is at ({across}, {down})"
            )
        x, y = min(x, across - 0.5), min(y, down - 0.5)  # the far edge itself is no longer on the page
        return Point(x * self.css_width / across, y * self.css_height / down)

    def from_css(self, point: Point) -> tuple[int, int]:
        """The whole numbers nearest to a point of the viewport: the best a model can answer."""
        across, down = self.span
        return round(point.x * across / self.css_width), round(point.y * down / self.css_height)


def resize(screenshot: Screenshot, limits: PictureLimits) -> Picture:
    """The screenshot within the limits, in its own format. DataError when its bytes are no picture."""
    width, height = limits.size(screenshot.width, screenshot.height)
    data = screenshot.data
    if (width, height) != (screenshot.width, screenshot.height):
        kept = io.BytesIO()
        try:
            with Image.open(io.BytesIO(data)) as found:
                found.resize((width, height), Image.Resampling.BICUBIC).save(kept, found.format, quality=QUALITY)
        except OSError as error:
            raise DataError(f"screenshot {screenshot.sha256[:12]} cannot be read as a picture: {error}") from error
        data = kept.getvalue()
    return Picture(
        media_type=screenshot.media_type,
        data=data,
        width=width,
        height=height,
        css_width=screenshot.width / screenshot.scale,
        css_height=screenshot.height / screenshot.scale,
        limits=limits,
    )


class PictureCache:
    """`resize`, in a thread, with the last pictures kept by (sha256, limits)."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._pictures: OrderedDict[tuple[str, PictureLimits], Picture] = OrderedDict()

    async def resize(self, screenshot: Screenshot, limits: PictureLimits) -> Picture:
        key = (screenshot.sha256, limits)
        if key not in self._pictures:
            self._pictures[key] = await asyncio.to_thread(resize, screenshot, limits)
        self._pictures.move_to_end(key)
        picture = self._pictures[key]
        while len(self._pictures) > self._kept:
            self._pictures.popitem(last=False)
        return picture
