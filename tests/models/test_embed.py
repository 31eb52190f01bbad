"""Pooled hidden states."""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from broken_server import BrokenServer
from transformers import BertConfig, BertModel

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedConfig, EmbedItem, Pooling
from bestofq.core.errors import BestOfQError, ConfigError, ModelError, SetupError
from bestofq.core.language import Request, user
from bestofq.models.cached_embedder import Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.embed import MATCHES, LocalEmbedder, matches
from bestofq.models.embed_text import EndpointEmbedder, MatchEmbedder
from bestofq.models.embed_vision import load_embedder
from bestofq.models.local import LocalModel

SHORT = EmbedItem(text="red mouse")
LONG = EmbedItem(text="goal: i need a red wireless mouse under 40 dollars\npage:\nBuy Now [1] back [2]\n")


FRAME = "{% for message in messages %}<user>{{ message.content }}</user>{% endfor %}"


class Kept(dict[str, np.ndarray]):
    """A store of vectors that refuses what it has."""

    def get_many(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        return {key: self[key] for key in keys if key in self}

    def put_many(self, vectors: Mapping[str, np.ndarray]) -> None:
        assert not set(vectors) & set(self)
        self.update(vectors)


class Counted(LocalEmbedder):
    """Counts what it computes."""

    computed = 0

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        self.computed += len(items)
        return super()._compute(items)


def with_tokenizer(model: LocalModel, **changes: str | None) -> LocalModel:
    tokenizer = copy.deepcopy(model.tokenizer)
    for name, value in changes.items():
        setattr(tokenizer, name, value)
    return LocalModel(model.model, tokenizer, name=model.name, revision=model.revision)


def last_layer(model: LocalModel, ids: Sequence[int]) -> np.ndarray:
    """[T, D]."""
    hidden = model.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]
    found: np.ndarray = hidden.detach().numpy()
    return found


@pytest.mark.parametrize("template", [None, FRAME], ids=["plain", "chat"])
def test_a_vector_is_the_mean_of_the_last_hidden_state_over_the_text_s_own_tokens(
    model: LocalModel, template: str | None
) -> None:
    """Neither the start token, a chat's frame nor the padding of a shorter text is pooled (A.3)."""
    vectors = LocalEmbedder(with_tokenizer(model, chat_template=template)).embed_all([SHORT, LONG])
    for item, vector in zip((SHORT, LONG), vectors, strict=True):
        read = [model.tokenizer.bos_token_id, *model.encode_plain(item.text)]
        np.testing.assert_allclose(vector, last_layer(model, read)[1:].mean(0), atol=1e-5)


def test_a_tokenizer_with_neither_start_token_nor_chat_template(model: LocalModel) -> None:
    bare = with_tokenizer(model, bos_token=None, chat_template=None)
    own = model.encode_plain(LONG.text)
    assert bare.encode(LONG.text) == own
    vector, empty = LocalEmbedder(bare).embed_all([LONG, EmbedItem(text="")])
    np.testing.assert_allclose(vector, last_layer(model, own).mean(0), atol=1e-5)
    assert np.isfinite(empty).all()
    [reply] = bare.generate_batch([Request(messages=user(LONG.text), max_tokens=2)])[0].replies
    assert len(reply.ids) > 0


def test_the_last_token_alone_can_be_pooled(model: LocalModel) -> None:
    embedder = LocalEmbedder(model, EmbedConfig(pooling="last"))
    for text, vector in zip((SHORT.text, LONG.text), embedder.embed_all([SHORT, LONG]), strict=True):
        np.testing.assert_allclose(vector, last_layer(model, model.encode(text))[-1], atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_the_model_s_own_answer_can_be_pooled_whether_it_ended_or_was_cut_off(
    model: LocalModel, pooling: Pooling, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [EmbedItem(text=f"{word} {LONG.text}", answer=12) for word in ("a", "mouse", "need")]
    said = [
        model.generate_batch([Request(messages=user(item.text), one_line=True)])[0].replies[0].ids for item in items
    ]
    begun = said[0][0]  # some answers are to end at once, some after three tokens, some not before the limit
    later = next(ids[3] for ids in said if ids[0] != begun)
    monkeypatch.setattr(model, "_ends", torch.tensor([begun, later]))
    vectors = LocalEmbedder(model, EmbedConfig(pooling=pooling)).embed_all([SHORT, *items, LONG])
    lengths = set()
    for item, vector in zip(items, vectors[1:-1], strict=True):
        reply = model.generate_batch([Request(messages=user(item.text), max_tokens=12, one_line=True)])[0].replies[0]
        answer = list(reply.ids[:-1] if reply.finished else reply.ids)
        lengths.add(len(answer))
        prompt = model.encode(item.text)
        hidden = last_layer(model, prompt + answer)
        own = hidden[len(prompt) :] if answer else hidden[-1:]
        np.testing.assert_allclose(vector, own[-1] if pooling == "last" else own.mean(0), atol=1e-4)
    assert lengths >= {0, 3, 12}
    np.testing.assert_allclose(
        vectors[-1], LocalEmbedder(model, EmbedConfig(pooling=pooling)).embed_all([LONG])[0], atol=1e-5
    )
    assert len({items[0].key, EmbedItem(text=items[0].text).key}) == 2


def test_each_distinct_text_is_embedded_once(model: LocalModel) -> None:
    kept, embedder = Kept(), LocalEmbedder(model)
    first = embedder.embed_all([SHORT, LONG, SHORT], kept)
    again = embedder.embed_all([LONG, SHORT], kept)  # `put_many` refuses what it has
    assert len(kept) == 2
    np.testing.assert_array_equal(first[[1, 0]], again)


async def test_what_acting_embeds_is_not_embedded_again_for_training(model: LocalModel) -> None:
    kept, acting = Kept(), Counted(model)
    with acting.save_to(kept):
        vectors, _ = await acting.embed([LONG, SHORT])
    later = Counted(model)
    np.testing.assert_array_equal(later.embed_all([LONG, SHORT], kept), vectors)
    assert (acting.computed, later.computed, len(kept)) == (2, 0, 2)


async def test_episodes_in_flight_share_a_batch(model: LocalModel) -> None:
    embedder = LocalEmbedder(model)
    pairs = await asyncio.gather(*(embedder.embed([SHORT, LONG]) for _ in range(4)))
    lengths = [len(model.encode(item.text)) for item in (SHORT, LONG)]
    assert sorted(tokens for _, tokens in pairs)[-1] == sum(lengths)
    assert (await embedder.embed([LONG, SHORT]))[1] == 0
    for pair, _ in pairs:
        np.testing.assert_allclose(pair, LocalEmbedder(model).embed_all([SHORT, LONG]), atol=1e-5)


def test_the_spec_names_what_a_vector_depends_on(model: LocalModel) -> None:
    changes = ({}, {"layer": 1}, {"context": "review"}, {"pooling": "last"}, {"prompt": "x"})
    assert len({LocalEmbedder(model, EmbedConfig.model_validate(change)).spec.hash for change in changes}) == 5


def test_matches_by_hand() -> None:
    east, north, both = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0])
    found = matches(torch.stack([east, both]), torch.stack([5 * east, north, east]))
    near = 0.5**0.5  # the cosine of `both` with each of the others
    assert found.tolist() == pytest.approx(
        [(1 + near) / 2, near, 0.5, 0.0, 0.1, (1 + near + 1) / 3, 2 / 3, 0.2], abs=1e-6
    )
    assert matches(east[None], east[None]).tolist() == pytest.approx([1, 1, 1, 1, 0.1, 1, 1, 0.1], abs=1e-6)


@pytest.fixture
def embedder(weights: str) -> MatchEmbedder:
    return MatchEmbedder(LocalEmbedder(LocalModel.load(weights, device="cpu", precision="float32")))


TEXTS = ("click Red", "click Blue", "page: red hat, blue hat")
MATCHED = [EmbedItem(text=text, matched=(text, "buy a red hat")) for text in TEXTS]


def check_matches(found: np.ndarray) -> None:
    """Check the vectors of `MATCHED`: what says more of the goal matches it more, whatever its case."""
    assert found[0, -MATCHES] > found[1, -MATCHES]  # more of it is in the goal
    assert found[2, -2] > found[0, -2] > found[1, -2]  # more of the goal is in it


def test_the_matches_stand_behind_the_vector_of_the_text_alone(embedder: MatchEmbedder) -> None:
    found = embedder.embed_all(MATCHED)
    alone = embedder._embedder.embed_all([EmbedItem(text=text) for text in TEXTS])
    np.testing.assert_allclose(found[:, :-MATCHES], alone, rtol=1e-5, atol=1e-6)
    check_matches(found)
    assert embedder.spec.dim == found.shape[1]
    (goal,) = embedder.embed_all([EmbedItem(text="buy a red hat")])
    assert not goal[-MATCHES:].any()  # it is not matched with itself


def test_a_model_that_writes_no_text_is_left_to_an_endpoint(tmp_path: Path) -> None:
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=99, **shape)).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"endpoints\.embedder\.model"):
        load_embedder(tmp_path, device="cpu", precision="float32")


async def open_embedder(server: BrokenServer, **config: object) -> EndpointEmbedder:
    endpoint = ChatConfig(model="mini", base_url=server.base_url, deadline=5)
    return await asyncio.to_thread(EndpointEmbedder, endpoint, EmbedConfig.model_validate(config))


@pytest.mark.parametrize(("name", "value", "own"), [("layer", 1, "-1"), ("context", "review", "alone")])
async def test_what_an_endpoint_cannot_do_is_one_sentence(name: str, value: object, own: str) -> None:
    async with BrokenServer(lambda _: "") as server:
        with pytest.raises(ConfigError, match=f"model.embed.{name}={own}"):
            await open_embedder(server, **{name: value})


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
        endpoints = {name: {"model": name, "base_url": server.base_url} for name in ("chat", "embedder")}
        settings = {"endpoints": endpoints, "model": {"embed": {"matches": True}}}
        models = Models(BestOfQSettings.model_validate(settings))
        embedder = await asyncio.to_thread(lambda: models.embedder)
        vectors, _ = await embedder.embed(MATCHED)
        assert models.texts.matches
    assert vectors.shape == (3, embedder.spec.dim) == (3, 32 + 8)
    check_matches(vectors)
