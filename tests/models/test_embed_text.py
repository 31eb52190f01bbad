"""Sentence encoders, and embeddings behind an endpoint."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from broken_server import BrokenServer
from transformers import BertConfig, BertModel

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import BestOfQError, ConfigError, ModelError, SetupError
from bestofq.models.chat import ChatConfig
from bestofq.models.embed_text import EndpointEmbedder, SentenceEmbedder
from bestofq.models.embed_vision import load_embedder
from experiments.pocket_models.tokenizer import train_tokenizer

TEXTS = ["red mouse", "goal: i need a red wireless mouse under 40 dollars\npage:\nBuy Now [1]", "", "mouse " * 90]
ITEMS = [EmbedItem(text=text) for text in TEXTS]
LENGTH = 32


def save_encoder(folder: Path, modules: str = "Transformer Pooling Normalize", pooling: str = "mean_tokens") -> Path:
    tokenizer = train_tokenizer(TEXTS * 4, 300)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=LENGTH, initializer_range=0.3, **shape)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kinds = [f"sentence_transformers.models.{kind}" for kind in modules.split()]
    listed = [{"idx": i, "path": f"{i}", "type": kind} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LENGTH}))
    (folder / "1").mkdir()
    modes = {f"pooling_mode_{mode}": mode in pooling for mode in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1/config.json").write_text(json.dumps({"word_embedding_dimension": 16, **modes}))
    return folder


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token"])
@pytest.mark.parametrize("modules", ["Transformer Pooling Normalize", "Transformer Pooling"])
def test_a_sentence_encoder_pools_and_normalizes_as_its_files_say(tmp_path: Path, pooling: str, modules: str) -> None:
    embedder = load_embedder(save_encoder(tmp_path, modules, pooling), device="cpu", precision="float32")
    assert isinstance(embedder, SentenceEmbedder)
    model = BertModel.from_pretrained(tmp_path).eval()
    for text, vector in zip(TEXTS, embedder.embed_all(ITEMS), strict=True):
        ids = embedder._tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]
        if not ids:
            continue
        hidden = model(torch.tensor([ids])).last_hidden_state[0].detach().numpy()
        wanted = hidden[0] if pooling == "cls_token" else hidden.mean(0)
        wanted = wanted / np.linalg.norm(wanted) if "Normalize" in modules else wanted
        np.testing.assert_allclose(vector, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("modules", "pooling", "config", "problem"),
    [
        ("Transformer Pooling Dense", "mean_tokens", {}, "Dense"),
        ("Transformer Pooling", "max_tokens", {}, "max_tokens"),
        ("Transformer Pooling", "cls_token mean_tokens", {}, "cls_token and mean_tokens"),
        ("Transformer Pooling", "mean_tokens", {"layer": 1}, "model.embed.layer=-1"),
        ("Transformer Pooling", "mean_tokens", {"context": "review"}, "model.embed.context=alone"),
        ("", "mean_tokens", {}, "no modules.json"),
    ],
)
def test_what_a_sentence_encoder_cannot_do_is_one_sentence(
    tmp_path: Path, modules: str, pooling: str, config: dict[str, object], problem: str
) -> None:
    save_encoder(tmp_path, modules, pooling)
    if not modules:
        (tmp_path / "modules.json").unlink()
    with pytest.raises(ConfigError, match=problem):
        load_embedder(tmp_path, EmbedConfig.model_validate(config), device="cpu", precision="float32")


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
    [
        (["401"], ConfigError, "key"),
        (["shape"] * 9, ModelError, "another form"),
        (["404"], ConfigError, "base_url"),
        (["elsewhere"], ConfigError, "not followed"),
        (["flood"] * 9, ModelError, "longer than"),
    ],
)
async def test_an_endpoint_that_does_not_embed_says_why(
    script: list[str], kind: type[BestOfQError], problem: str
) -> None:
    async with BrokenServer(lambda _: "", script=script) as server:
        with pytest.raises(kind, match=problem):
            await open_embedder(server)
    with pytest.raises(SetupError, match="start the server"):
        await open_embedder(server)


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
