"""A screenshot in the size that a model takes it in (`Picture`), with the exact way back to the page."""

from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Literal, Self

from pydantic import Field, model_validator

from bestofq.core.errors import ReplyError
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Point

Coordinates = Literal["pixels", "thousandths"]
FLOOR = 200_000  # pixels below which no picture is halved: at 596 x 335 the text of a page is hardly read any more


class PictureLimits(FrozenModel):
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


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A screenshot as it is sent.

    A point is (x, y) from the top left corner, in pixels of the sent picture or thousandths of its sides. The map to
    CSS pixels is linear and exact. A model that answers in whole numbers loses at most half of one. So the middle of a
    target of 8 x 8 CSS pixels is always hit on a page of 1280 x 720 sent larger than 160 x 90. In thousandths, this
    holds for pages less than 8000 CSS pixels wide.
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
            raise ReplyError(f"the point ({x!s:.9}, {y!s:.9}) is outside the picture, which ends at ({across}, {down})")
        x, y = min(x, across - 0.5), min(y, down - 0.5)  # the far edge itself is no longer on the page
        return Point(x * self.css_width / across, y * self.css_height / down)
