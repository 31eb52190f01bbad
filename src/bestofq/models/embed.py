"""Embeddings: a frozen model's hidden states, mean-pooled over a text's own tokens (Best-of-Q, A.3).

State, action and task are embedded separately. Variants, each named by its EmbedSpec: another layer, or an action's
tokens read in the context of their state (`context="state"`), where the state's key-value cache serves all its actions.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.transitions import Floats
from bestofq.models.batching import MicroBatcher
from bestofq.models.local import LocalModel


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
        in_context: bool = False,
        memory: int = 50_000,
    ) -> None:
        self.spec = EmbedSpec(
            model=model.name,
            revision=model.revision,
            prompt=prompt,
            layer=layer,
            context="state" if in_context else "alone",
            dim=model.dim,
        )
        self._model = model
        self._memory: dict[str, Floats] = {}
        self._limit = memory
        self._batcher: MicroBatcher[EmbedItem, Floats] = MicroBatcher(self._embed_new, limit=4 * model.max_batch)
        self.seconds = 0.0
        self.tokens = 0

    async def embed(self, items: Sequence[EmbedItem]) -> Floats:
        """Vectors [B, D], batched with the other requests in flight."""
        distinct = {item.key: item for item in items}
        missing = [item for key, item in distinct.items() if key not in self._memory]
        fresh = await _gather(self._batcher, missing)
        found = {item.key: vector for item, vector in zip(missing, fresh, strict=True)}
        vectors = [found[item.key] if item.key in found else self._memory[item.key] for item in items]
        self._remember(found)
        return np.stack(vectors) if vectors else np.zeros((0, self.spec.dim), np.float32)

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
            vectors = dict(zip((item.key for item in chunk), self._compute(chunk), strict=True))
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

    def _embed_new(self, items: Sequence[EmbedItem]) -> list[Floats]:
        distinct = {item.key: item for item in items}
        vectors = dict(zip(distinct, self._compute(list(distinct.values())), strict=True))
        return [vectors[item.key] for item in items]

    def _compute(self, items: Sequence[EmbedItem]) -> list[Floats]:
        started = time.perf_counter()
        rows: list[Floats | None] = [None] * len(items)
        plain = sorted((i for i, item in enumerate(items) if not item.context), key=lambda i: len(items[i].text))
        size = self._model.max_batch
        for start in range(0, len(plain), size):
            group = plain[start : start + size]
            for index, vector in zip(group, self._pool([items[i].text for i in group]), strict=True):
                rows[index] = vector
        by_context: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            if item.context:
                by_context.setdefault(item.context, []).append(i)
        contexts = sorted(by_context, key=len)
        for start in range(0, len(contexts), size):
            some = contexts[start : start + size]
            texts = [[items[i].text for i in by_context[c]] for c in some]
            vectors = self._pool_in_context(some, texts)
            for index, vector in zip((i for c in some for i in by_context[c]), vectors, strict=True):
                rows[index] = vector
        self.seconds += time.perf_counter() - started
        return [row for row in rows if row is not None]

    @torch.inference_mode()
    def _pool(self, texts: Sequence[str]) -> Floats:
        """[B, D]. Padded on the right, where a causal model's tokens cannot see it."""
        ids, own = self._pad([self._model.encode(text) for text in texts])
        out = self._model.model(input_ids=ids, output_hidden_states=True, logits_to_keep=1, use_cache=False)
        self.tokens += int(own.sum())
        return _mean(out.hidden_states[self.spec.layer], own)

    @torch.inference_mode()
    def _pool_in_context(self, contexts: Sequence[str], texts: Sequence[Sequence[str]]) -> Floats:
        """[sum of len(texts), D]. The context's cache is computed once and shared by its texts."""
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
        out = self._model.model(
            input_ids=own_ids,
            attention_mask=torch.cat([seen[owner], own], dim=1).long(),
            position_ids=lengths[owner][:, None] + torch.arange(own_ids.shape[1], device=self._model.device),
            past_key_values=out.past_key_values,
            output_hidden_states=True,
            logits_to_keep=1,
        )
        self.tokens += int(lengths.sum()) + int(own.sum())
        return _mean(out.hidden_states[self.spec.layer], own)

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """ids [B, T] padded on the right, and where they are real [B, T]."""
        width = max(map(len, rows))
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
        lengths = torch.tensor([len(row) for row in rows])[:, None]
        own = torch.arange(width) < lengths
        return ids.to(self._model.device), own.to(self._model.device)


class Progress(Protocol):
    def __call__(self, done: int, total: int) -> None: ...


def _mean(hidden: Tensor, own: Tensor) -> Floats:
    """Mean over a row's own tokens: [B, T, D], [B, T] → [B, D] float32."""
    weights = own[..., None].float()
    pooled: Floats = ((hidden.float() * weights).sum(1) / weights.sum(1)).cpu().numpy()
    return pooled


async def _gather(batcher: MicroBatcher[EmbedItem, Floats], items: Sequence[EmbedItem]) -> list[Floats]:
    return list(await asyncio.gather(*(batcher.submit(item) for item in items)))
