"""What every embedder promises (`core.protocols.Embedder`)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_vision import save_tiny_vision

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import ConfigError
from bestofq.models.cached_embedder import CachedEmbedder
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_vision import VisionEmbedder
from bestofq.models.local import LocalModel

ITEMS = [EmbedItem(text="red"), EmbedItem(text="buy the red one\nnow"), EmbedItem(text="page: red Buy Now [1]")]


@pytest.fixture(params=["local", "last token", "beside the goal", "one of my own", "vision"])
def embedder(request: pytest.FixtureRequest, weights: str, tmp_path: Path) -> Iterator[CachedEmbedder]:
    match request.param:
        case "local":
            yield LocalEmbedder(LocalModel.load(weights, device="cpu", precision="float32"))
        case "last token" | "beside the goal":
            how = EmbedConfig(pooling="last") if request.param == "last token" else EmbedConfig(matches=True)
            yield LocalEmbedder(LocalModel.load(weights, device="cpu", precision="float32"), how)
        case "one of my own":
            yield Models(BestOfQSettings(model=ModelSettings(embedder="experiments.one_hot:OneHot"))).embedder
        case _:
            yield VisionEmbedder.load(
                save_tiny_vision(tmp_path), device="cpu", precision="float32", config=EmbedConfig(pixels=112 * 112)
            )


async def test_a_vector_an_item_of_the_width_that_the_spec_says(embedder: CachedEmbedder) -> None:
    vectors, tokens = await embedder.embed(ITEMS)
    assert vectors.shape == (len(ITEMS), embedder.spec.dim)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert tokens > 0


async def test_an_item_has_one_vector_whatever_it_comes_with(embedder: CachedEmbedder) -> None:
    together, _ = await embedder.embed([*ITEMS, ITEMS[0]])
    np.testing.assert_array_equal(together[0], together[3])
    for item, vector in zip(ITEMS, together, strict=False):
        alone, tokens = await embedder.embed([item])
        np.testing.assert_allclose(alone[0], vector, rtol=1e-4, atol=1e-5)
        assert tokens == 0  # it was known


async def test_other_items_have_other_vectors(embedder: CachedEmbedder) -> None:
    vectors, _ = await embedder.embed(ITEMS)
    assert len({vector.tobytes() for vector in vectors}) == len(ITEMS)


def test_what_is_no_embedder_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"builtins:repr"):
        _ = Models(BestOfQSettings(model=ModelSettings(embedder="builtins:repr"))).embedder
