"""Embeddings behind an endpoint."""

import asyncio

import numpy as np
import pytest
from broken_server import BrokenServer

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import BestOfQError, ConfigError, ModelError, SetupError
from bestofq.models.chat import ChatConfig
from bestofq.models.embed_text import EndpointEmbedder


async def open_embedder(server: BrokenServer) -> EndpointEmbedder:
    return await asyncio.to_thread(EndpointEmbedder, ChatConfig(model="mini", base_url=server.base_url, deadline=5))


async def test_an_endpoint_embeds_in_batches_and_its_address_is_part_of_the_identity() -> None:
    many = [EmbedItem(text=f"text {number}") for number in range(100)]
    async with BrokenServer(lambda _: "") as server:
        embedder = await open_embedder(server)
        together, tokens = await embedder.embed(many)
        assert (embedder.spec.dim, together.shape, tokens > 0) == (32, (100, 32), True)
        assert embedder.spec.revision == server.base_url
        assert len(server.requests) < 10
        alone = [(await embedder.embed([item]))[0][0] for item in many[:3]]
        np.testing.assert_array_equal(together[:3], alone)
        async with BrokenServer(lambda _: "") as other:
            assert (await open_embedder(other)).spec.hash != embedder.spec.hash


async def test_a_text_that_is_too_long_for_an_endpoint_is_cut_and_an_empty_one_is_sent() -> None:
    long = EmbedItem(text="word " * 1000)
    async with BrokenServer(lambda _: "", takes=1500) as server:
        embedder = await open_embedder(server)
        vectors, _ = await embedder.embed([long, EmbedItem(text=""), EmbedItem(text="short")])
    assert np.isfinite(vectors).all()
    assert len({vector.tobytes() for vector in vectors}) == 3
    assert all(all(request["input"]) for request in server.requests)


@pytest.mark.parametrize(
    ("script", "kind", "problem"),
    [(["401"], ConfigError, "key"), (["shape"] * 9, ModelError, "another form"), (["404"], ConfigError, "base_url")],
)
async def test_an_endpoint_that_does_not_embed_says_why(
    script: list[str], kind: type[BestOfQError], problem: str
) -> None:
    async with BrokenServer(lambda _: "", script=script) as server:
        with pytest.raises(kind, match=problem):
            await open_embedder(server)
    with pytest.raises(SetupError, match="start the server"):
        await open_embedder(server)


def test_an_endpoint_has_one_way_to_embed_a_text() -> None:
    with pytest.raises(ConfigError, match="layer=-1"):
        EndpointEmbedder(ChatConfig(model="mini"), EmbedConfig(layer=1))


async def test_the_endpoint_embedder_embeds_for_any_proposer_with_matches() -> None:
    async with BrokenServer(lambda _: "") as server:
        settings = BestOfQSettings.model_validate(
            {
                "endpoints": {
                    "chat": {"model": "any", "base_url": server.base_url},
                    "embedder": {"model": "mini", "base_url": server.base_url},
                },
                "model": {"embed": {"matches": True}},
            }
        )
        models = Models(settings)
        embedder = await asyncio.to_thread(lambda: models.embedder)
        goal = "buy a red hat"
        texts = ["click Red", "click Blue", "page: red hat, blue hat"]
        vectors, _ = await embedder.embed([EmbedItem(text=text, matched=(text, goal)) for text in texts])
        assert models.texts.matches
    assert vectors.shape == (3, embedder.spec.dim) == (3, 32 + 8)
    assert vectors[0, 32] > vectors[1, 32]  # more of it is in the goal, whatever its case
    assert vectors[2, -2] > vectors[0, -2] > vectors[1, -2]  # and more of the goal is in it
