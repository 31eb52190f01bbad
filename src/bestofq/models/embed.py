"""Embeddings: a frozen model's hidden states, mean-pooled over a text's own tokens (Best-of-Q, A.3).

State, action and task are embedded separately. A text is read after the model's start token, where it has one, and
without a chat's frame; the start token is read but not pooled. An empty text is read as one end token. An EmbedSpec
names the variants: another layer, or the last token instead of the mean. Numbers on how the text's tokens match those
of a goal may follow the vector (`MatchEmbedder`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec, Pooling
from bestofq.core.errors import ConfigError
from bestofq.core.language import Generation, Request, user
from bestofq.core.transitions import Floats
from bestofq.models.batching import in_groups
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.decoding import pad_ids
from bestofq.models.local import LocalModel


class _Reading(NamedTuple):
    """What of a text is pooled: its tokens from `start` on; `vector` [D] where it is known already."""

    tokens: Sequence[int]
    start: int = 0
    vector: Floats | None = None


class LocalEmbedder(CachedEmbedder):
    """`Embedder` over a LocalModel, which reads texts only."""

    def __init__(self, model: LocalModel, config: EmbedConfig = DEFAULTS) -> None:
        """Its `pixels` have no meaning for a model that reads texts only, and `MatchEmbedder` adds `matches`."""
        spec = EmbedSpec(
            model=model.name,
            revision=model.revision,
            tokens="own",
            dim=model.dim,
            **config.model_dump(exclude={"pixels", "matches"}),
        )
        super().__init__(spec, batch=4 * model.max_batch)
        self._model = model

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} reads no pictures: embed texts alone, or use a vision-language model")
        readings = self._read(items)
        unread = [reading for reading in readings if reading.vector is None]
        size = self._model.max_batch
        found = iter(in_groups(unread, self._pool, size=size, length=lambda reading: len(reading.tokens)))
        vectors = [next(found) if reading.vector is None else reading.vector for reading in readings]
        return [Vector(vector, len(r.tokens)) for vector, r in zip(vectors, readings, strict=True)]

    @torch.inference_mode()
    def word_vectors(self, text: str) -> Tensor:
        """The model's input embeddings [T, D] of a text's tokens, whatever their case."""
        ids = torch.tensor(self._own(" " + text.casefold()), device=self._model.device)
        found: Tensor = self._model.model.get_input_embeddings()(ids)
        return found

    def _read(self, items: Sequence[EmbedItem]) -> list[_Reading]:
        prompts = [item for item in items if item.answer]
        requests = [Request(messages=user(p.text), max_tokens=p.answer, one_line=True) for p in prompts]
        drawn = iter(self._model.drawn(requests, states=self.spec.layer == -1))
        start = self._model.start
        return [
            self._read_answer(item.text, *next(drawn))
            if item.answer
            else _Reading([*start, *self._own(item.text)], len(start))
            for item in items
        ]

    def _own(self, text: str) -> list[int]:
        return self._model.encode_plain(text) or [self._model.end]

    def _read_answer(self, prompt: str, drawn: Generation, states: Tensor | None) -> _Reading:
        """A prompt and the answer to it, without its end; for an empty answer the prompt's last token stands."""
        ids, reply = self._model.encode(prompt), drawn.replies[0]
        answer = reply.ids[:-1] if reply.finished else reply.ids
        vector = None
        if states is not None and reply.finished:  # else the state of the last token is still to be found
            own = states[1:] if answer else states
            vector = pool_vectors(own[None], torch.ones_like(own[None, :, 0], dtype=torch.bool), self.spec.pooling)[0]
        return _Reading([*ids, *answer], len(ids) if answer else len(ids) - 1, vector)

    @torch.inference_mode()
    def _pool(self, rows: Sequence[_Reading]) -> Floats:
        """[B, D], of each row's tokens from a place on."""
        ids, real = pad_ids([row.tokens for row in rows], self._model.device)
        starts = torch.tensor([row.start for row in rows], device=ids.device)
        own = real & (torch.arange(ids.shape[1], device=ids.device) >= starts[:, None])
        hidden = hidden_states(self._model.model.base_model, self.spec.layer, input_ids=ids, use_cache=False)
        return pool_vectors(hidden, own, self.spec.pooling)


MATCHES = 8
SAME = 0.999  # cosine from which two tokens are the same


def matches(text: Tensor, goal: Tensor) -> Tensor:
    """Return [MATCHES] numbers from the model's input embeddings of a text [T, D] and of its goal [G, D].

    For each token of the text, take the largest cosine with a token of the goal. The first five numbers are the mean,
    the least, the share of equal tokens, whether all are equal, and the number of equal tokens / 10. Two more are the
    mean and the share for the goal's tokens. The last is T / 10.
    """
    cosine = torch.nn.functional.normalize(text.float(), dim=-1) @ torch.nn.functional.normalize(goal.float(), dim=-1).T
    ours, theirs = cosine.amax(1), cosine.amax(0)
    found, covered = (ours > SAME).float(), (theirs > SAME).float()
    length = found.new_tensor(len(text) / 10)
    own = (ours.mean(), ours.amin(), found.mean(), found.amin(), found.sum() / 10)
    return torch.stack([*own, theirs.mean(), covered.mean(), length])


def hidden_states(body: Any, layer: int, **inputs: Any) -> Tensor:
    """A layer [B, T, D] of a model without its head; without keeping the other layers where it is the last (-1)."""
    if layer == -1:
        last: Tensor = body(**inputs).last_hidden_state
        return last
    chosen: Tensor = body(**inputs, output_hidden_states=True).hidden_states[layer]
    return chosen


def pool_vectors(hidden: Tensor, own: Tensor, pooling: Pooling) -> Floats:
    """One vector a row, of its own tokens, which stand together: [B, T, D], [B, T] → [B, D] float32."""
    if pooling == "last":
        last = own.int().cumsum(1).argmax(1)
        vectors = hidden[torch.arange(len(own)), last].float()
    else:
        weights = own[..., None].float()
        vectors = (hidden.float() * weights).sum(1) / weights.sum(1)
    result: Floats = vectors.cpu().numpy()
    return result
