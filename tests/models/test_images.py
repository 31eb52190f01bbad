"""Pictures in a model's own size, and the way back to the page."""

import hashlib
import io
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from bestofq.core.errors import DataError, ReplyError
from bestofq.core.observation import Point, Screenshot
from bestofq.core.picture import FLOOR, Picture, PictureLimits
from bestofq.models.images import FAMILIES, limits_of, resize

try:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
except ImportError:  # transformers 4
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

QWEN = FAMILIES["qwen25vl"]
sides = st.integers(40, 4000)


def shot(width: int, height: int, scale: float = 1.0, media: Literal["jpeg", "png", "webp"] = "jpeg") -> Screenshot:
    kept = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).save(kept, media)
    data = kept.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=digest, media_type=f"image/{media}", width=width, height=height, scale=scale, data=data)


def bare(width: int, height: int, scale: float = 1.0) -> Screenshot:
    return Screenshot(sha256="", media_type="image/jpeg", width=width, height=height, scale=scale)


@given(sides, sides, st.sampled_from([28, 32]), st.integers(100_000, 4_000_000))
def test_the_processor_of_qwen_leaves_it_alone(width: int, height: int, factor: int, most: int) -> None:
    limits = PictureLimits(least=3136, most=most, factor=factor)
    wide, high = limits.size(width, height)
    own = smart_resize(height, width, factor=factor, min_pixels=3136, max_pixels=most)
    assert (high, wide) == own
    assume(max(width, height) / min(width, height) <= most / factor**2)
    assert smart_resize(high, wide, factor=factor, min_pixels=3136, max_pixels=most) == own


@pytest.mark.parametrize(
    ("model", "size", "coordinates"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", (1288, 728), "pixels"),
        ("qwen2.5vl:7b", (1288, 728), "pixels"),
        ("Qwen/Qwen3-VL-8B-Instruct", (1280, 704), "thousandths"),
        ("Hcompany/Holo1.5-7B", (1288, 728), "pixels"),
        ("models/gemini-2.5-flash", (1280, 720), "thousandths"),
        ("gpt-4.1", (1280, 720), "pixels"),
    ],
)
def test_known_families(model: str, size: tuple[int, int], coordinates: str) -> None:
    limits = limits_of(model)
    assert (limits.size(1280, 720), limits.coordinates) == (size, coordinates)


def test_what_fits_is_sent_as_it_is() -> None:
    small = shot(640, 360)
    assert resize(small, PictureLimits()).data == small.data


@pytest.mark.parametrize("media", ["jpeg", "png", "webp"])
def test_the_format_stays(media: Literal["jpeg", "png", "webp"]) -> None:
    picture = resize(shot(300, 200, media=media), PictureLimits(most=30_000, factor=28))
    with Image.open(io.BytesIO(picture.data)) as found:
        assert (found.format, found.size) == (media.upper(), (picture.width, picture.height))
    assert picture.media_type == f"image/{media}"
    assert (picture.width % 28, picture.height % 28) == (0, 0)
    assert picture.width * picture.height <= 30_000


def test_what_is_no_picture_is_named() -> None:
    broken = shot(300, 200).model_copy(update={"data": b"no picture"})
    with pytest.raises(DataError, match="cannot be read as a picture"):
        resize(broken, QWEN)


def answered(picture: Picture, x: float, y: float) -> tuple[int, int]:
    """The whole numbers nearest to a point of the viewport: the best a model can answer."""
    across, down = picture.span
    return round(x * across / picture.css_width), round(y * down / picture.css_height)


def hits(ratio: float, coordinates: Literal["pixels", "thousandths"] = "pixels") -> bool:
    """Whether the middle of every 8 x 8 target of a 1280 x 720 page, at quarters of a pixel, survives rounding to the
    whole numbers of a picture with `ratio` pixels per CSS pixel."""
    limits = PictureLimits(most=10**8, coordinates=coordinates)
    picture = resize(bare(round(1280 * ratio), round(720 * ratio), ratio), limits)
    middles = [4 + quarter / 4 for quarter in range(4 * 700)]
    points = [(Point(middle, middle), picture.to_css(*answered(picture, middle, middle))) for middle in middles]
    return all(abs(point.x - of.x) < 4 and abs(point.y - of.y) < 4 for of, point in points)


def test_targets_of_8_pixels_are_hit_down_to_an_eighth_of_the_page() -> None:
    assert hits(0.15)
    assert hits(0.15, "thousandths")
    assert not hits(0.1)


@given(sides, sides, st.sampled_from([1.0, 1.25, 1.5, 2.0]), st.data())
def test_a_point_goes_there_and_back_within_half_a_sent_pixel(
    width: int, height: int, scale: float, data: st.DataObject
) -> None:
    wide, high = QWEN.size(width, height)
    limits = PictureLimits(most=wide * high)
    sent = bare(wide, high, scale)
    picture = resize(sent, limits)
    x = data.draw(st.floats(0, picture.css_width - 1))
    y = data.draw(st.floats(0, picture.css_height - 1))
    back = picture.to_css(*answered(picture, x, y))
    assert abs(back.x - x) <= 0.5 / scale + 1e-6
    assert abs(back.y - y) <= 0.5 / scale + 1e-6


def test_points_outside_are_refused_in_words_and_the_far_edge_is_the_last_pixel() -> None:
    picture = resize(bare(1288, 728), QWEN)
    for x, y in ((-1, 5), (1289, 5), (5, 729), (float("nan"), 5), (float("inf"), 5)):
        with pytest.raises(ReplyError, match=r"outside the picture, which ends at \(1288, 728\)"):
            picture.to_css(x, y)
    assert picture.to_css(1288, 728) == Point(1287.5, 727.5)
    tall = resize(shot(2560, 1440, 2.0), FAMILIES["gemini"].within(500_000))
    assert tall.to_css(500, 250) == Point(640, 180)


def test_halving_ends_where_a_page_cannot_be_read_any_more() -> None:
    assert resize(bare(1280, 720), PictureLimits()).half == 460_800
    assert resize(bare(600, 600), PictureLimits()).half is None
    assert resize(bare(1280, 720), PictureLimits(least=500_000)).half is None
    assert FLOOR == 200_000
