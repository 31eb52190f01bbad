"""Embedders of texts that are no language models: sentence encoders, and endpoints with `/v1/embeddings`."""

import json
import logging
import re
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import openai
import torch
import transformers
from torch import Tensor
from transformers.utils.hub import cached_file

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ContextError, ModelError, SetupError
from bestofq.core.language import break_tokens
from bestofq.core.secrets import hide
from bestofq.core.transitions import Floats
from bestofq.models.batching import in_groups
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.checkpoints import Precision, checkpoint_errors, load_checkpoint
from bestofq.models.embed import MATCHES, LocalEmbedder, matches, pool_vectors
from bestofq.models.endpoint import api_error_of, http_client, key_of, limit_body

log = logging.getLogger(__name__)

BATCH = 32  # texts a call
WORD_NUMBERS = 256  # of a word's vector
LEAST_CHARACTERS = 64  # of a text that an endpoint refuses as too long: a shorter one is not cut again


class _TextEmbedder(CachedEmbedder):
    """An embedder that reads texts alone and has one way to pool them."""

    def __init__(self, config: EmbedConfig, *, model: str, revision: str, dim: int) -> None:
        """ConfigError if `config` has a layer, pooling or context that only a language model has."""
        for name in ("layer", "pooling", "context"):
            if (value := getattr(config, name)) != (own := getattr(DEFAULTS, name)):
                raise ConfigError(
                    f"{model} has one way to embed a text, not {name}={value}: set model.embed.{name}={own}"
                )
        how = config.model_dump(include={"prompt", "action", "state"})
        super().__init__(EmbedSpec(model=model, revision=revision, dim=dim, **how), batch=4 * BATCH)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.screenshots or item.answer for item in items):
            raise ConfigError(
                f"{self.spec.model} embeds texts alone: set model.embed.context=alone and model.embed.pixels=0"
            )
        texts = [item.text for item in items]
        return in_groups(texts, self._embed, size=BATCH, length=len)

    @abstractmethod
    def _embed(self, texts: list[str]) -> list[Vector]:
        """Vectors of a few texts."""


class SentenceEmbedder(_TextEmbedder):
    """`Embedder` over a sentence encoder, as its sentence-transformers files say: pooling, normalizing, length."""

    def __init__(
        self, path: str | Path, config: EmbedConfig = DEFAULTS, *, device: str = "auto", precision: Precision = "auto"
    ) -> None:
        """Load a directory or hub name with modules.json. SetupError if it cannot be read, ConfigError for a module
        other than a transformer, pooling by mean, first or last token, and normalizing."""
        folders = {module["type"].rpartition(".")[2]: module["path"] for module in _read_json(path, "modules.json")}
        if others := folders.keys() - {"Transformer", "Pooling", "Normalize"}:
            raise ConfigError(f"{path} has a module {others.pop()}: known are Transformer, Pooling and Normalize")
        self._pooling = _read_pooling(path, folders["Pooling"]) if "Pooling" in folders else "mean"
        self._normalizes = "Normalize" in folders
        with checkpoint_errors(path):
            model, self._tokenizer, target, revision = load_checkpoint(transformers.AutoModel, path, device, precision)
        super().__init__(config, model=Path(path).name, revision=revision, dim=int(model.config.hidden_size))
        self._model = model.to(target).eval().requires_grad_(False)
        self._tokenizer.padding_side = "right"
        if length := (_read_json(path, "sentence_bert_config.json") or {}).get("max_seq_length"):
            self._tokenizer.model_max_length = length

    @torch.inference_mode()
    def _embed(self, texts: list[str]) -> list[Vector]:
        how = {"padding": True, "truncation": True, "split_special_tokens": True, "return_tensors": "pt"}
        inputs = self._tokenizer(texts, **how).to(self._model.device)
        hidden, own = self._model(**inputs).last_hidden_state, inputs["attention_mask"].bool()
        if self._pooling == "first":
            hidden, own = hidden[:, :1], own[:, :1]
        vectors = pool_vectors(hidden, own, "last" if self._pooling == "last" else "mean")
        if self._normalizes:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return [
            Vector(vector, sum(mask)) for vector, mask in zip(vectors, inputs["attention_mask"].tolist(), strict=True)
        ]


def _read_pooling(path: str | Path, folder: str) -> str:
    ways = {"cls_token": "first", "mean_tokens": "mean", "lasttoken": "last"}
    settings = _read_json(path, f"{folder}/config.json")
    modes = [name.removeprefix("pooling_mode_") for name, value in settings.items() if value is True]
    chosen = [mode for mode in modes if mode != "include_prompt"]
    if len(chosen) != 1 or chosen[0] not in ways:
        raise ConfigError(f"{path} pools by {' and '.join(chosen)}: known are {', '.join(ways)}, each alone")
    return ways[chosen[0]]


def is_sentence_encoder(path: str | Path) -> bool:
    return _read_json(path, "modules.json") is not None


def _read_json(path: str | Path, name: str) -> Any:
    """A file of a directory or of the hub; None if there is none."""
    try:
        file = cached_file(path, name, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):
        return None
    return None if file is None else json.loads(Path(file).read_text("utf-8"))


class EndpointEmbedder(_TextEmbedder):
    """`Embedder` over `/v1/embeddings` of an OpenAI-compatible server. Its address is part of its identity.

    A text that the server refuses as too long is halved until it fits.
    """

    def __init__(self, endpoint: ChatConfig, config: EmbedConfig = DEFAULTS) -> None:
        """Learn the dimension from a first reply. SetupError if nobody is there, ConfigError if it is refused."""
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
        super().__init__(config, model=endpoint.model, revision=hide(endpoint.base_url), dim=len(probe.values))

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
        if len(texts[0]) < LEAST_CHARACTERS:
            raise ConfigError(
                f"{self._endpoint.place} refuses {texts[0]!r} as too long: serve it with a larger context"
            )
        if not self._cut:
            self._cut = True
            log.warning("%s takes no text of %d characters: longer ones are cut", self._endpoint.place, len(texts[0]))
        return self._embed([texts[0][: len(texts[0]) // 2]])


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
