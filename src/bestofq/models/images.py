"""Pictures in the size that a chat model's own processor leaves alone, with the exact way back to the page.

An endpoint that resizes a picture answers in pixels of one that nobody here has seen. So pictures are resized on this
side, by the rule of the models' processors, and each knows how its pixels lie on the page.
"""

import base64
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from bestofq.core.errors import DataError
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture, PictureLimits

QUALITY = 90  # of JPEG and WebP
FAMILIES: Mapping[str, PictureLimits] = {  # by a part of the name, letters and digits only; the first that fits
    # factors, Qwen2.5-VL's pixels and the coordinates were checked in published sources; Qwen3-VL's, Holo1's and
    # Holo3's pixels and Gemini's coordinates were not: set `pixels_most` and the like of the endpoint if they differ
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


def image_part(picture: Picture | Screenshot) -> dict[str, Any]:
    data = base64.b64encode(picture.data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{picture.media_type};base64,{data}"}}
