"""Pooled hidden states."""

import asyncio
import copy
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedConfig, EmbedItem, Pooling
from bestofq.core.language import Request, user
from bestofq.models.cached_embedder import Vector
from bestofq.models.embed import LocalEmbedder
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
    found: np.ndarray = model.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0].numpy()
    return found


@pytest.mark.parametrize("template", [None, FRAME], ids=["plain", "chat"])
def test_a_vector_is_the_mean_of_the_last_hidden_state_over_the_text_s_own_tokens(
    model: LocalModel, template: str | None
) -> None:
    """Neither the start token nor a chat's frame is pooled (A.3)."""
    own = model.encode_plain(LONG.text)
    vector = LocalEmbedder(with_tokenizer(model, chat_template=template)).embed_all([LONG])[0]
    np.testing.assert_allclose(vector, last_layer(model, [model.tokenizer.bos_token_id, *own])[1:].mean(0), atol=1e-5)


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
        hidden = model.model(torch.tensor([model.encode(text)]), output_hidden_states=True).hidden_states[-1][0]
        np.testing.assert_allclose(vector, hidden[-1].detach().numpy(), atol=1e-4)


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
        hidden = model.model(torch.tensor([prompt + answer]), output_hidden_states=True).hidden_states[-1][0]
        own = hidden[len(prompt) :] if answer else hidden[-1:]
        wanted = own[-1] if pooling == "last" else own.mean(0)
        np.testing.assert_allclose(vector, wanted.detach().numpy(), atol=1e-4)
    assert lengths >= {0, 3, 12}
    np.testing.assert_allclose(
        vectors[-1], LocalEmbedder(model, EmbedConfig(pooling=pooling)).embed_all([LONG])[0], atol=1e-5
    )
    assert len({items[0].key, EmbedItem(text=items[0].text).key}) == 2


def test_padding_does_not_change_a_vector(model: LocalModel) -> None:
    embedder = LocalEmbedder(model)
    np.testing.assert_allclose(embedder.embed_all([SHORT, LONG])[0], embedder.embed_all([SHORT])[0], atol=1e-5)


def test_each_distinct_text_is_embedded_once(model: LocalModel) -> None:
    kept, embedder = Kept(), LocalEmbedder(model)
    first = embedder.embed_all([SHORT, LONG, SHORT], kept)
    again = embedder.embed_all([LONG, SHORT], kept)  # `put_many` refuses what it has
    assert len(kept) == 2
    np.testing.assert_array_equal(first[[1, 0]], again)


async def test_what_acting_embeds_is_not_embedded_again_for_training(model: LocalModel) -> None:
    kept, acting = Kept(), Counted(model)
    await acting.embed([SHORT])
    with acting.save_to(kept):
        vectors, _ = await acting.embed([LONG, SHORT])
    np.testing.assert_array_equal(acting.embed_all([LONG, SHORT], kept), vectors)  # the second from before it was kept
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
    specs = {
        LocalEmbedder(model).spec.hash,
        LocalEmbedder(model, EmbedConfig(layer=1)).spec.hash,
        LocalEmbedder(model, EmbedConfig(context="review")).spec.hash,
        LocalEmbedder(model, EmbedConfig(pooling="last")).spec.hash,
        LocalEmbedder(model, EmbedConfig(prompt="x")).spec.hash,
    }
    assert len(specs) == 5
