"""Embeddings of text and pictures by a tiny Qwen2.5-VL."""

import asyncio
import hashlib
import io
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from tiny_vision import picture, save_tiny_qwen3_vl, save_tiny_vision, tiny_tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import ConfigError, DataError, ReplyError, SetupError
from bestofq.core.observation import Point, Screenshot
from bestofq.core.picture import FLOOR, Picture, PictureLimits
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_vision import VisionEmbedder, load_embedder
from bestofq.models.images import FAMILIES, limits_of, resize

PAGE = EmbedItem(text="buy the red one", screenshots=(picture(100, 60),))
TWO = EmbedItem(text="red mouse", screenshots=(picture(300, 200, 1), picture(56, 84, 2)))
WORD = EmbedItem(text="red")
PIXELS = 112 * 112


class Processor(Qwen2_5_VLProcessor):
    """The published processor without its videos, for which it wants torchvision."""

    def __init__(self, image_processor: object = None, tokenizer: object = None, **settings: object) -> None:
        super().__init__(image_processor, tokenizer, **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision(tmp_path_factory.mktemp("tiny-vl"))


@pytest.fixture(scope="module")
def embedder(folder: Path) -> VisionEmbedder:
    loaded = load_embedder(folder, EmbedConfig(pixels=PIXELS), device="cpu", precision="float32")
    assert isinstance(loaded, VisionEmbedder)
    return loaded


def by_hand(folder: Path, item: EmbedItem) -> np.ndarray:
    """The same through the published processor and the whole model."""
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    processor = Processor.from_pretrained(folder)
    processor.image_processor.size = {"shortest_edge": 56 * 56, "longest_edge": PIXELS}
    frames = "<|vision_start|><|image_pad|><|vision_end|>" * len(item.screenshots)
    images = [Image.open(io.BytesIO(s.data)) for s in item.screenshots] or None
    inputs = processor(text=[frames + item.text], images=images, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs, output_hidden_states=True).hidden_states[-1]
    mask = inputs["attention_mask"][..., None]
    return ((hidden * mask).sum(1) / mask.sum(1))[0].numpy()


def test_a_vector_is_the_mean_of_the_last_hidden_state_also_in_a_batch(folder: Path, embedder: VisionEmbedder) -> None:
    for item, vector in zip((WORD, PAGE, TWO), embedder.embed_all([WORD, PAGE, TWO]), strict=True):
        expected = by_hand(folder, item)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
        np.testing.assert_allclose(embedder.embed_all([item])[0], expected, atol=1e-5)


async def test_tokens_are_those_of_text_and_picture_and_counted_once(embedder: VisionEmbedder) -> None:
    """100 x 60 pixels become 112 x 56: 4 x 2 tokens between two marks."""
    fresh = PAGE.model_copy(update={"text": "red red"})
    pairs = await asyncio.gather(*(embedder.embed([fresh, fresh]) for _ in range(3)))
    assert sorted(tokens for _, tokens in pairs) == [0, 0, 8 + 2 + len(tiny_tokenizer()("red red")["input_ids"])]
    for vectors, _ in pairs:
        np.testing.assert_array_equal(vectors[0], pairs[0][0][1])


def test_a_page_cannot_write_control_tokens(embedder: VisionEmbedder) -> None:
    """A shop that calls a product <|image_pad|> neither breaks the batch nor poses as a picture."""
    said = EmbedItem(text="red <|image_pad|><|vision_start|>", screenshots=PAGE.screenshots)
    vectors = embedder.embed_all([said, PAGE])
    assert np.isfinite(vectors).all()
    assert embedder._length(said) > 20 + 8 + 2  # letter by letter, after the picture's 8 and its marks


def test_texts_alone_need_no_pixels(folder: Path, embedder: VisionEmbedder) -> None:
    blind = load_embedder(folder, EmbedConfig(pixels=0), device="cpu", precision="float32")
    assert (blind.spec.pixels, blind.spec.pixels_least) == (0, 0)
    np.testing.assert_allclose(blind.embed_all([WORD]), embedder.embed_all([WORD]), atol=1e-6)
    with pytest.raises(ConfigError, match="texts only"):
        blind.embed_all([PAGE])


def test_the_spec_names_the_pixels(folder: Path, embedder: VisionEmbedder) -> None:
    assert (embedder.spec.pixels, embedder.spec.pixels_least, embedder.spec.dim) == (PIXELS, 56 * 56, 32)
    finer = load_embedder(folder, EmbedConfig(pixels=4 * PIXELS), device="cpu", precision="float32")
    assert finer.spec.hash != embedder.spec.hash
    assert np.abs(finer.embed_all([TWO]) - embedder.embed_all([TWO])).max() > 1e-3


def test_what_it_cannot_embed_is_refused(
    folder: Path, embedder: VisionEmbedder, checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="embeds texts alone"):
        embedder.embed_all([EmbedItem(text="a", answer=3)])
    for data, problem in ((b"", "without its bytes"), (b"x", "no picture")):
        shot = PAGE.screenshots[0].model_copy(update={"data": data})
        with pytest.raises(DataError, match=problem):
            embedder.embed_all([EmbedItem(text="a", screenshots=(shot,))])
    with pytest.raises(ConfigError, match="context review"):
        load_embedder(folder, EmbedConfig(context="review"))
    with pytest.raises(SetupError, match="no model at"):
        load_embedder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llava"}')
    with pytest.raises(ConfigError, match="of the kind llava"):
        load_embedder(tmp_path)
    texts = load_embedder(checkpoint, device="cpu", precision="float32")
    assert isinstance(texts, LocalEmbedder)
    with pytest.raises(ConfigError, match="reads no pictures"):
        texts.embed_all([PAGE])


def test_the_pixels_of_a_stored_picture_are_read_when_they_are_needed(embedder: VisionEmbedder) -> None:
    shot = PAGE.screenshots[0]
    stored = PAGE.model_copy(update={"screenshots": (shot.model_copy(update={"data": b""}),)})
    vectors = embedder.embed_all([stored], pictures=lambda asked: shot if asked.sha256 == shot.sha256 else asked)
    np.testing.assert_array_equal(vectors, embedder.embed_all([PAGE]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("tf32", "atol"), [(False, 1e-4), (True, 5e-3)])
def test_a_gpu_gives_the_vectors_of_a_cpu(folder: Path, embedder: VisionEmbedder, tf32: bool, atol: float) -> None:
    """In float32 too cuDNN convolves in TF32 unless told otherwise (10 bits of mantissa): so are pictures' patches."""
    other = load_embedder(folder, EmbedConfig(pixels=PIXELS), device="cuda", precision="float32")
    with torch.backends.cudnn.flags(allow_tf32=tf32):
        found = other.embed_all([PAGE, TWO, WORD])
    np.testing.assert_allclose(found, embedder.embed_all([PAGE, TWO, WORD]), atol=atol)


def test_qwen3_vl_is_read_too(tmp_path: Path) -> None:
    other = load_embedder(save_tiny_qwen3_vl(tmp_path), EmbedConfig(pixels=PIXELS), device="cpu", precision="float32")
    assert isinstance(other, VisionEmbedder)
    together = other.embed_all([PAGE, TWO, WORD])
    np.testing.assert_allclose(together, [other.embed_all([item])[0] for item in (PAGE, TWO, WORD)], atol=1e-4)
    seen = PAGE.model_copy(update={"screenshots": (picture(100, 60, seed=5),)})
    assert np.abs(other.embed_all([seen]) - together[0]).max() > 1e-3
    forged = EmbedItem(text="buy <|image_pad|> red")  # no picture is expected
    assert np.isfinite(other.embed_all([forged])).all()


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
