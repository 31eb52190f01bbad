"""A pooling endpoint against the model in this process, over real HTTP on loopback."""

from pathlib import Path

import numpy as np
import pytest
from pooling_server import served
from tiny_vision import picture, save_tiny_vision
from typer.testing import CliRunner

from bestofq.agents.prompting import prompt_hash
from bestofq.cli.commands import app
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import CheckpointError, ConfigError, ModelError
from bestofq.models.embed_http import HttpEmbedder, PoolingEndpoint, PromptAgreement, check
from bestofq.models.embed_vision import VisionEmbedder
from bestofq.models.endpoint import EndpointConfig

PIXELS = 112 * 112
ITEMS = [
    EmbedItem(text="red"),
    EmbedItem(text="buy the red one\nnow"),
    EmbedItem(text="page: red", screenshots=(picture(100, 60), picture(60, 100, 1))),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision(tmp_path_factory.mktemp("tiny-vl"))


@pytest.fixture(scope="module")
def local(folder: Path) -> VisionEmbedder:
    return VisionEmbedder.load(folder, device="cpu", precision="float32", config=EmbedConfig(pixels=PIXELS))


async def test_an_endpoint_that_agrees_may_be_used(local: VisionEmbedder) -> None:
    with served(lambda item: local.embed_all([item])[0]) as endpoint:
        agreement = check(endpoint, local, ITEMS)
        assert agreement.items == 3
        assert agreement.cosine > 0.99999
        assert agreement.length < 1e-4
        embedder = HttpEmbedder(endpoint, agreement)
        assert embedder.spec == local.spec  # what Q was trained on
        vectors, tokens = await embedder.embed([*ITEMS, ITEMS[0]])
        np.testing.assert_allclose(vectors, local.embed_all([*ITEMS, ITEMS[0]]), atol=1e-4)
        assert tokens == 3 * 7


def test_an_endpoint_that_pools_otherwise_is_refused(folder: Path, local: VisionEmbedder) -> None:
    last = VisionEmbedder.load(
        folder, device="cpu", precision="float32", config=EmbedConfig(pixels=PIXELS, pooling="last")
    )
    refused = pytest.raises(CheckpointError, match=r"least cosine of 3 inputs is .*below 0\.999")
    with served(lambda item: last.embed_all([item])[0]) as endpoint, refused:
        check(endpoint, local, ITEMS)


def test_an_endpoint_that_scales_its_vectors_is_refused_although_their_cosine_is_1(local: VisionEmbedder) -> None:
    def scaled(item: EmbedItem) -> np.ndarray:
        vector = local.embed_all([item])[0]
        return vector / np.linalg.norm(vector)

    with served(scaled) as endpoint, pytest.raises(CheckpointError, match=r"another length.*use_activation"):
        check(endpoint, local, ITEMS)


def test_an_endpoint_that_sees_other_pixels_is_refused(folder: Path, local: VisionEmbedder) -> None:
    coarse = VisionEmbedder.load(folder, device="cpu", precision="float32", config=EmbedConfig(pixels=56 * 56))
    with served(lambda item: coarse.embed_all([item])[0]) as endpoint, pytest.raises(CheckpointError):
        check(endpoint, local, ITEMS)


def test_no_endpoint_is_used_on_another_s_word(local: VisionEmbedder, tmp_path: Path) -> None:
    with served(lambda item: local.embed_all([item])[0]) as endpoint:
        agreement = check(endpoint, local, ITEMS)
    other = PoolingEndpoint(EndpointConfig(model="other", base_url=endpoint.config.base_url))
    with pytest.raises(CheckpointError, match="was compared, not other"):
        HttpEmbedder(other, agreement)
    with pytest.raises(CheckpointError, match="least cosine"):
        HttpEmbedder(endpoint, agreement.model_copy(update={"cosine": 0.9}))
    other.close()
    with pytest.raises(CheckpointError, match="doctor --base-url"):
        PromptAgreement.read(tmp_path / "none.json")


def test_an_endpoint_s_troubles_are_told_apart(local: VisionEmbedder) -> None:
    with served(lambda _: np.zeros(32), status=404) as endpoint:
        with pytest.raises(ConfigError, match=r"it is not there: check `model`.*HTTP 404"):
            endpoint.vectors(ITEMS[:1])
        with pytest.raises(ConfigError, match="texts alone"):
            endpoint.vectors([EmbedItem(text="a", context="b")])
    with served(lambda _: np.zeros(32), status=500) as endpoint, pytest.raises(ModelError, match="1 attempts"):
        endpoint.vectors(ITEMS[:1])
    with served(lambda _: np.zeros(31)) as endpoint, pytest.raises(CheckpointError, match=r"31 numbers.*'s 32"):
        check(endpoint, local, ITEMS)
    gone = PoolingEndpoint(endpoint.config)
    with pytest.raises(ModelError, match="no connection"):
        gone.vectors(ITEMS[:1])
    gone.close()


@pytest.mark.slow
def test_the_command_keeps_the_agreement(folder: Path, tmp_path: Path) -> None:
    served_model = VisionEmbedder.load(folder, device="cpu", config=EmbedConfig(prompt=prompt_hash(), pixels=PIXELS))
    out = tmp_path / "agreement.json"
    with served(lambda item: served_model.embed_all([item])[0]) as endpoint:
        where = ["--base-url", endpoint.config.base_url, "--model", "tiny", "--local", str(folder)]
        asked = ["doctor", *where, "--pixels", str(PIXELS), "--device", "cpu", "--out", str(out)]
        result = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert result.exit_code == 0
        assert "agrees with" in result.output
        assert PromptAgreement.read(out).spec == served_model.spec
        nameless = CliRunner().invoke(app, ["doctor", "--base-url", endpoint.config.base_url])
        assert isinstance(nameless.exception, ConfigError)
