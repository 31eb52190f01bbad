"""Embeddings: a frozen model's hidden states, mean-pooled over a text's own tokens (Best-of-Q, A.3).

State, action and task are embedded separately. Variants, each named by its EmbedSpec: another layer; the last token
instead of the mean; actions read in the context of their state (`EmbedItem.context`), whose key-value cache serves
them all.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import Context, EmbedItem, EmbedSpec, Pooling
from bestofq.core.transitions import Floats
from bestofq.models.batching import MicroBatcher
from bestofq.models.local import LocalModel, Request


class VectorStore(Protocol):
    """Where vectors are kept between runs: `store.vectors.VectorCache`, or none."""

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Floats]: ...

    def put_many(self, vectors: Mapping[str, Floats]) -> None: ...


class LocalEmbedder:
    """`Embedder` over a LocalModel. Each distinct input is embedded once."""

    def __init__(
        self,
        model: LocalModel,
        *,
        prompt: str = "",
        layer: int = -1,
        pooling: Pooling = "mean",
        context: Context = "alone",
        memory: int = 50_000,
    ) -> None:
        self.spec = EmbedSpec(
            model=model.name,
            revision=model.revision,
            prompt=prompt,
            layer=layer,
            pooling=pooling,
            context=context,
            dim=model.dim,
        )
        self._model = model
        self._memory: dict[str, Floats] = {}
        self._limit = memory
        self._batcher: MicroBatcher[EmbedItem, Vector] = MicroBatcher(self._embed_new, limit=4 * model.max_batch)

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        """Vectors [B, D] and the tokens they took, batched with the other requests in flight."""
        distinct = {item.key: item for item in items}
        missing = [item for key, item in distinct.items() if key not in self._memory]
        fresh = await _gather(self._batcher, missing)
        found = {item.key: vector.values for item, vector in zip(missing, fresh, strict=True)}
        vectors = [found[item.key] if item.key in found else self._memory[item.key] for item in items]
        self._remember(found)
        stacked = np.stack(vectors) if vectors else np.zeros((0, self.spec.dim), np.float32)
        return stacked, sum(vector.tokens for vector in fresh)

    def embed_all(
        self, items: Sequence[EmbedItem], store: VectorStore | None = None, progress: "Progress | None" = None
    ) -> Floats:
        """Vectors [B, D] of a whole data set, without an event loop; those in `store` are taken from there, new ones
        put there. `progress` hears how many are done."""
        distinct = {item.key: item for item in items}
        found = dict(store.get_many(list(distinct))) if store is not None else {}
        # Alike lengths together; items that share a context stay together, as their keys sort by it.
        todo = sorted(
            (i for key, i in distinct.items() if key not in found),
            key=lambda i: (len(i.context), i.context, len(i.text)),
        )
        for start in range(0, len(todo), 512):
            chunk = todo[start : start + 512]
            computed = self._compute(chunk)
            vectors = {item.key: vector.values for item, vector in zip(chunk, computed, strict=True)}
            found.update(vectors)
            if store is not None:
                store.put_many(vectors)
            if progress:
                progress(len(found), len(distinct))
        return np.stack([found[item.key] for item in items]) if items else np.zeros((0, self.spec.dim), np.float32)

    def _remember(self, vectors: Mapping[str, Floats]) -> None:
        if len(self._memory) + len(vectors) > self._limit:
            self._memory.clear()
        self._memory.update(vectors)

    def _embed_new(self, items: Sequence[EmbedItem]) -> list["Vector"]:
        distinct = {item.key: item for item in items}
        vectors = dict(zip(distinct, self._compute(list(distinct.values())), strict=True))
        return [vectors[item.key] for item in items]

    def _compute(self, items: Sequence[EmbedItem]) -> list["Vector"]:
        rows: list[Vector | None] = [None] * len(items)
        size = self._model.max_batch
        alone = [i for i, item in enumerate(items) if not item.context]
        read = dict(zip(alone, self._read([items[i] for i in alone]), strict=True))
        alone.sort(key=lambda i: len(read[i][0]))
        for start in range(0, len(alone), size):
            group = alone[start : start + size]
            for index, vector in zip(group, self._pool([read[i] for i in group]), strict=True):
                rows[index] = Vector(vector, len(read[index][0]))
        by_context: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            if item.context:
                by_context.setdefault(item.context, []).append(i)
        contexts = sorted(by_context, key=len)
        for start in range(0, len(contexts), size):
            some = contexts[start : start + size]
            texts = [[items[i].text for i in by_context[c]] for c in some]
            vectors, tokens = self._pool_in_context(some, texts)
            indices = (i for c in some for i in by_context[c])
            for index, vector, count in zip(indices, vectors, tokens, strict=True):
                rows[index] = Vector(vector, count)
        return [row for row in rows if row is not None]

    def _read(self, items: Sequence[EmbedItem]) -> list[tuple[list[int], int]]:
        """The tokens of each item without context, its answer among them, and where what is pooled begins."""
        asked = [i for i, item in enumerate(items) if item.answer]
        requests = [Request(prompt=items[i].text, max_new_tokens=items[i].answer, one_line=True) for i in asked]
        answers = dict(zip(asked, self._model.generate_batch(requests), strict=True))
        rows = []
        for i, item in enumerate(items):
            ids, start = self._model.encode(item.text), 0
            if i in answers:
                reply = answers[i].replies[0]
                answer = reply.ids[:-1] if reply.finished else reply.ids  # the end is no word of it
                ids, start = [*ids, *answer], len(ids) if answer else len(ids) - 1
            rows.append((ids, start))
        return rows

    @torch.inference_mode()
    def _pool(self, rows: Sequence[tuple[Sequence[int], int]]) -> Floats:
        """[B, D], of each row's tokens from a place on. Padded on the right, where a causal model cannot see it."""
        ids, real = self._pad([tokens for tokens, _ in rows])
        starts = torch.tensor([start for _, start in rows], device=ids.device)
        own = real & (torch.arange(ids.shape[1], device=ids.device) >= starts[:, None])
        return self._pooled(self._hidden(input_ids=ids, use_cache=False), own)

    @torch.inference_mode()
    def _pool_in_context(self, contexts: Sequence[str], texts: Sequence[Sequence[str]]) -> tuple[Floats, Sequence[int]]:
        """[sum of len(texts), D], and each one's tokens. A context's cache is computed once and shared by its texts; it
        counts for the first of them."""
        prompts = [self._model.encode(context) for context in contexts]
        width = max(map(len, prompts))
        ids = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
        lengths = torch.tensor([len(p) for p in prompts], device=self._model.device)
        seen = torch.arange(width, device=self._model.device) >= (width - lengths)[:, None]  # [C, P]
        positions = (seen.long().cumsum(1) - 1).clamp(min=0)
        out = self._model.model(
            input_ids=ids.to(self._model.device),
            attention_mask=seen.long(),
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
        )
        owner = torch.tensor([row for row, group in enumerate(texts) for _ in group], device=self._model.device)
        out.past_key_values.batch_select_indices(owner)
        own_ids, own = self._pad([self._model.encode_plain(text) for group in texts for text in group])
        hidden = self._hidden(
            input_ids=own_ids,
            attention_mask=torch.cat([seen[owner], own], dim=1).long(),
            position_ids=lengths[owner][:, None] + torch.arange(own_ids.shape[1], device=self._model.device),
            past_key_values=out.past_key_values,
        )
        first = torch.cat([torch.ones_like(owner[:1]), owner[1:] != owner[:-1]]).long()
        tokens = own.sum(1) + first * lengths[owner]
        return self._pooled(hidden, own), tokens.tolist()

    def _hidden(self, **inputs: Any) -> Tensor:
        """The spec's layer [B, T, D]; without the logits, and without the other layers where it is the last."""
        body = self._model.model.base_model
        if self.spec.layer == -1:
            last: Tensor = body(**inputs).last_hidden_state
            return last
        layer: Tensor = body(**inputs, output_hidden_states=True).hidden_states[self.spec.layer]
        return layer

    def _pooled(self, hidden: Tensor, own: Tensor) -> Floats:
        """One vector a row, of its own tokens, which stand together: [B, T, D], [B, T] → [B, D] float32."""
        if self.spec.pooling == "last":
            last = own.int().cumsum(1).argmax(1)
            pooled = hidden[torch.arange(len(own)), last].float()
        else:
            weights = own[..., None].float()
            pooled = (hidden.float() * weights).sum(1) / weights.sum(1)
        vectors: Floats = pooled.cpu().numpy()
        return vectors

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """ids [B, T] padded on the right, and where they are real [B, T]."""
        width = max(map(len, rows))
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
        lengths = torch.tensor([len(row) for row in rows])[:, None]
        own = torch.arange(width) < lengths
        return ids.to(self._model.device), own.to(self._model.device)


class Vector(NamedTuple):
    """One item's vector [D] and the tokens it took."""

    values: Floats
    tokens: int


class Progress(Protocol):
    def __call__(self, done: int, total: int) -> None: ...


async def _gather(batcher: MicroBatcher[EmbedItem, Vector], items: Sequence[EmbedItem]) -> list[Vector]:
    return list(await asyncio.gather(*(batcher.submit(item) for item in items)))
