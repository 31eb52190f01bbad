"""An embedder of texts behind an endpoint with `/v1/embeddings`, and matches with the goal behind any vector."""

import logging
import re
import weakref
from collections.abc import Sequence
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ContextError, ModelError, SetupError
from bestofq.core.language import break_tokens
from bestofq.core.secrets import hide
from bestofq.core.transitions import Floats
from bestofq.models.batching import in_groups
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.embed import MATCHES, LocalEmbedder, matches
from bestofq.models.endpoint import api_error_of, http_client, key_of, limit_body

log = logging.getLogger(__name__)

BATCH = 32  # texts a call
WORD_NUMBERS = 256  # of a word's vector
LEAST_CHARACTERS = 64  # of a text that an endpoint refuses as too long: a shorter one is not cut again


class EndpointEmbedder(CachedEmbedder):
    """`Embedder` over `/v1/embeddings` of an OpenAI-compatible server. Its address is part of its identity.

    A text that the server refuses as too long is halved until it fits.
    """

    def __init__(self, endpoint: ChatConfig, config: EmbedConfig = DEFAULTS) -> None:
        """Learn the dimension from a first reply. SetupError if nobody is there, ConfigError if it is refused, or if
        `config` has a layer, pooling or context that only a language model has."""
        for name in ("layer", "pooling", "context"):
            if (value := getattr(config, name)) != (own := getattr(DEFAULTS, name)):
                raise ConfigError(
                    f"{endpoint.model} has one way to embed a text, not {name}={value}: set model.embed.{name}={own}"
                )
        import openai  # 0.7 s, which a local model need not wait for

        self._endpoint, self._cut = endpoint, False
        self._client = openai.OpenAI(
            base_url=endpoint.base_url,
            api_key=key_of(endpoint.key_variable),
            timeout=endpoint.deadline,
            max_retries=2,
            http_client=http_client(openai.DefaultHttpxClient, limit_body),
        )
        weakref.finalize(self, self._client.close)
        [probe] = self._embed(["dimension"])
        how = config.model_dump(include={"prompt", "action", "state"})
        spec = EmbedSpec(model=endpoint.model, revision=hide(endpoint.base_url), dim=len(probe.values), **how)
        super().__init__(spec, batch=4 * BATCH)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.screenshots or item.answer for item in items):
            raise ConfigError(
                f"{self.spec.model} embeds texts alone: set model.embed.context=alone and model.embed.pixels=0"
            )
        return in_groups([item.text for item in items], self._embed, size=BATCH, length=len)

    def _embed(self, texts: list[str]) -> list[Vector]:
        where = self._endpoint.place
        try:
            answer = self._client.embeddings.create(
                model=self._endpoint.model, input=[break_tokens(text) or " " for text in texts], encoding_format="float"
            )
            rows = [np.asarray(row.embedding, np.float32) for row in sorted(answer.data, key=lambda row: row.index)]
        except Exception as error:
            try:
                failure = api_error_of(error, where, self._endpoint.key_variable, self._endpoint.deadline)
            except ContextError:
                return self._embed_shorter(texts)
            raise (SetupError if failure.kind == "absent" else ModelError)(f"{where}: {failure.what}") from error
        if len(rows) != len(texts) or len({row.shape for row in rows}) != 1 or rows[0].ndim != 1:
            raise ModelError(f"{where} gave {len(rows)} vectors for {len(texts)} texts, or vectors of several lengths")
        tokens = (answer.usage.prompt_tokens if answer.usage else 0) // len(texts)
        return [Vector(row, tokens) for row in rows]

    def _embed_shorter(self, texts: list[str]) -> list[Vector]:
        """Each text by itself, and one that is too long by its first half."""
        if len(texts) > 1:
            return [vector for text in texts for vector in self._embed([text])]
        [text], where = texts, self._endpoint.place
        if len(text) < LEAST_CHARACTERS:
            raise ConfigError(f"{where} refuses {text!r} as too long: serve it with a larger context")
        if not self._cut:
            self._cut = True
            log.warning("%s takes no text of %d characters: longer ones are cut", where, len(text))
        return self._embed([text[: len(text) // 2]])


class MatchEmbedder(CachedEmbedder):
    """An embedder's vectors, each followed by how the words of its text match those of the goal (`embed.matches`).

    A language model compares its input embeddings of their tokens. For other embedders a word's vector counts its
    groups of three letters, so that like words are close.
    """

    def __init__(self, embedder: CachedEmbedder) -> None:
        spec = embedder.spec
        super().__init__(spec.model_copy(update={"matches": True, "dim": spec.dim + MATCHES}), batch=4 * BATCH)
        self._embedder = embedder
        self._words = embedder.word_vectors if isinstance(embedder, LocalEmbedder) else _word_vectors

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        vectors = self._embedder._compute(items)
        return [Vector(np.append(v.values, self._match(i)), v.tokens) for i, v in zip(items, vectors, strict=True)]

    def _match(self, item: EmbedItem) -> Floats:
        """[MATCHES]; zeros for the goal itself."""
        if item.matched is None:
            return np.zeros(MATCHES, np.float32)
        found: Floats = matches(*map(self._words, item.matched)).cpu().numpy()
        return found


def _word_vectors(text: str) -> Tensor:
    words = re.findall(r"\w+", text.casefold()) or [""]
    vectors = np.zeros((len(words), WORD_NUMBERS), np.float32)
    for vector, word in zip(vectors, words, strict=True):
        for start in range(len(word)):
            vector[crc32(f"^{word}$"[start : start + 3].encode()) % WORD_NUMBERS] += 1
    return torch.from_numpy(vectors)
