"""Embeddings: a frozen model's hidden states, mean-pooled over a text's own tokens (Best-of-Q, A.3).

State, action and task are embedded separately. A text is read after the model's start token, where it has one, and
without a chat's frame; the start token is read but not pooled. An empty text is read as one end token. Variants, each
named by its EmbedSpec: another layer; the last token instead of the mean; actions read in the context of their state
(`EmbedItem.context`), whose key-value cache serves them all; behind the vector, how the text's tokens match those of a
goal (`matching.matches`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.language import Request, user
from bestofq.core.transitions import Floats
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.local import Drawn, LocalModel
from bestofq.models.matching import MATCHES, matches
from bestofq.models.pooling import hidden_states, padded, pooled


class _Reading(NamedTuple):
    """What of a text is pooled: its tokens from `start` on; `vector` [D] where it is known already."""

    tokens: Sequence[int]
    start: int = 0
    vector: Floats | None = None


class LocalEmbedder(CachedEmbedder):
    """`Embedder` over a LocalModel, which reads texts only."""

    def __init__(self, model: LocalModel, config: EmbedConfig = DEFAULTS) -> None:
        """Its `pixels` have no meaning for a model that reads texts only."""
        spec = EmbedSpec(
            model=model.name,
            revision=model.revision,
            tokens="own",
            dim=model.dim + (MATCHES if config.matches else 0),
            **config.model_dump(include={"prompt", "layer", "pooling", "context", "matches"}),
        )
        super().__init__(spec, batch=4 * model.max_batch)
        self._model = model

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} reads no pictures: embed texts alone, or use a vision-language model")
        vectors = self._vectors(items)
        if not self.spec.matches:
            return vectors
        return [Vector(np.append(v.values, self._matches(i)), v.tokens) for i, v in zip(items, vectors, strict=True)]

    def _vectors(self, items: Sequence[EmbedItem]) -> list[Vector]:
        size = self._model.max_batch
        alone = [i for i, item in enumerate(items) if not item.context]
        read = dict(zip(alone, self._read([items[i] for i in alone]), strict=True))
        rows = {i: Vector(row.vector, len(row.tokens)) for i, row in read.items() if row.vector is not None}
        unread = sorted((i for i in alone if i not in rows), key=lambda i: len(read[i].tokens))
        for start in range(0, len(unread), size):
            group = unread[start : start + size]
            for index, vector in zip(group, self._pool([read[i] for i in group]), strict=True):
                rows[index] = Vector(vector, len(read[index].tokens))
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
        return [rows[i] for i in range(len(items))]

    @torch.inference_mode()
    def _matches(self, item: EmbedItem) -> Floats:
        """[MATCHES], of the words' tokens with their goal's, whatever their case; zeros for the goal itself."""
        if item.matched is None:
            return np.zeros(MATCHES, np.float32)
        table = self._model.model.get_input_embeddings()
        tokens = (self._own(" " + part.casefold()) for part in item.matched)
        words, goal = (torch.tensor(ids, device=self._model.device) for ids in tokens)
        return matches(table(words), table(goal)).cpu().numpy()

    def _read(self, items: Sequence[EmbedItem]) -> list[_Reading]:
        """The tokens of each item without context, its answer among them."""
        answered = [i for i, item in enumerate(items) if item.answer]
        requests = [Request(messages=user(items[i].text), max_tokens=items[i].answer, one_line=True) for i in answered]
        drawn = self._model.drawn(requests, states=self.spec.layer == -1)
        answers = dict(zip(answered, drawn, strict=True))
        return [
            self._answered(self._model.encode(item.text), answers[i]) if i in answers else self._alone(item.text)
            for i, item in enumerate(items)
        ]

    def _alone(self, text: str) -> _Reading:
        return _Reading([*self._model.start, *self._own(text)], len(self._model.start))

    def _own(self, text: str) -> list[int]:
        """A text's tokens, one at least."""
        return self._model.encode_plain(text) or [self._model.end]

    def _answered(self, ids: list[int], drawn: Drawn) -> _Reading:
        """A prompt and the answer to it. The end is no word of an answer; where there are none, the prompt's last token
        stands for it."""
        (reply, *_), states = drawn[0].replies, drawn[1]
        answer = reply.ids[:-1] if reply.finished else reply.ids
        vector = None
        if states is not None and reply.finished:  # else the state of the last token is still to be found
            own = states[1:] if answer else states
            vector = pooled(own[None], torch.ones_like(own[None, :, 0], dtype=torch.bool), self.spec.pooling)[0]
        return _Reading([*ids, *answer], len(ids) if answer else len(ids) - 1, vector)

    @torch.inference_mode()
    def _pool(self, rows: Sequence[_Reading]) -> Floats:
        """[B, D], of each row's tokens from a place on."""
        ids, real = padded([row.tokens for row in rows], self._model.device)
        starts = torch.tensor([row.start for row in rows], device=ids.device)
        own = real & (torch.arange(ids.shape[1], device=ids.device) >= starts[:, None])
        return pooled(self._hidden(input_ids=ids, use_cache=False), own, self.spec.pooling)

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
        own_ids, own = padded([self._own(text) for group in texts for text in group], self._model.device)
        hidden = self._hidden(
            input_ids=own_ids,
            attention_mask=torch.cat([seen[owner], own], dim=1).long(),
            position_ids=lengths[owner][:, None] + torch.arange(own_ids.shape[1], device=self._model.device),
            past_key_values=out.past_key_values,
        )
        first = torch.cat([torch.ones_like(owner[:1]), owner[1:] != owner[:-1]]).long()
        tokens = own.sum(1) + first * lengths[owner]
        return pooled(hidden, own, self.spec.pooling), tokens.tolist()

    def _hidden(self, **inputs: Any) -> Tensor:
        return hidden_states(self._model.model.base_model, self.spec.layer, **inputs)
