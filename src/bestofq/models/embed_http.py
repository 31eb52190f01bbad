"""Embeddings from a pooling endpoint (vLLM), for those who serve the embedder already.

An endpoint pools and scales as its server was started to, and Q knows only the vectors it was trained on. So none is
used before `check` has compared it to the model in this process (`bestofq doctor --base-url`). vLLM agrees when served
with

    vllm serve MODEL --runner pooling --convert embed --trust-request-chat-template \
        --pooler-config '{"pooling_type": "MEAN", "use_activation": false}' \
        --mm-processor-kwargs '{"min_pixels": 3136, "max_pixels": 1003520}'

Where `use_activation` is not false, it scales its vectors to length 1, which a cosine cannot see: lengths are compared
as well. Unlike in this process, a page's text that spells a control token is read as that token.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai
from openai.types import CreateEmbeddingResponse
from pydantic import Field, ValidationError

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import CheckpointError, ConfigError, ModelError
from bestofq.core.frozen import FrozenModel
from bestofq.core.secrets import hide
from bestofq.core.usage import token_count
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.endpoint import EndpointConfig, api_error_of, client, key_of
from bestofq.models.images import image_part

COSINE = 0.999
LENGTH = 0.02
_POOLER = '{"pooling_type": "MEAN", "use_activation": false}'
# What an item becomes, as in `embed_vision`: pictures between their marks, then the text; no chat's frame.
_TEMPLATE = (
    "{% for message in messages %}{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endfor %}"
)


class PromptAgreement(FrozenModel):
    """How near an endpoint's vectors came to those of the model in this process."""

    endpoint: EndpointConfig
    spec: EmbedSpec = Field(description="of the vectors, as the model in this process makes them")
    items: int = Field(ge=1, description="how many were compared")
    cosine: float = Field(description="the least of them")
    length: float = Field(description="the largest difference in length, relative to the model's own")

    @classmethod
    def read(cls, path: Path) -> "PromptAgreement":
        """CheckpointError where there is none, or not a valid one."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise CheckpointError(
                f"{path} is no agreement: make one by `bestofq doctor --base-url` ({error})"
            ) from error


class PoolingEndpoint:
    """A client of `/v1/embeddings`: a request an item, many at once."""

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        self._client = openai.OpenAI(
            base_url=config.base_url,
            api_key=key_of(config.key_variable),
            timeout=config.attempt,
            max_retries=config.attempts - 1,
            http_client=client(),
        )

    def vectors(self, items: Sequence[EmbedItem]) -> list[Vector]:
        """ConfigError where a setting must be fixed, ModelError when the attempts are spent."""
        if any(item.context or item.answer for item in items):
            raise ConfigError(f"{self.config.place} embeds texts alone: set embed_context to alone (Best-of-Q, A.3)")
        with ThreadPoolExecutor(self.config.concurrency) as pool:
            return list(pool.map(self._vector, items))

    def close(self) -> None:
        self._client.close()

    def _vector(self, item: EmbedItem) -> Vector:
        body = {"model": self.config.model, "encoding_format": "float", **_content(item)}
        try:
            reply = self._client.post("/embeddings", cast_to=CreateEmbeddingResponse, body=body)
            return Vector(np.asarray(reply.data[0].embedding, np.float32), token_count(reply.usage.prompt_tokens) or 0)
        except Exception as error:
            problem = api_error_of(error, self.config)
            if problem.kind in ("format", "setting"):
                raise ConfigError(
                    f"{self.config.place}: {problem.what}: serve it for pooling as models/embed_http.py says"
                ) from error
            raise ModelError(
                f"{self.config.place} gave no vector in {self.config.attempts} attempts (last: {problem.what})"
            ) from error


class HttpEmbedder(CachedEmbedder):
    """`Embedder` over an endpoint that has been found to agree; its vectors count as the model's own."""

    def __init__(self, endpoint: PoolingEndpoint, agreement: PromptAgreement) -> None:
        """CheckpointError when the agreement is another endpoint's, or too little."""
        config, known = endpoint.config, agreement.endpoint
        if (config.model, hide(config.base_url)) != (known.model, hide(known.base_url)):
            raise CheckpointError(f"{known.place} was compared, not {config.place}: run `bestofq doctor --base-url`")
        _require(agreement)
        super().__init__(agreement.spec, batch=4 * config.concurrency)
        self._endpoint = endpoint

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        return _check_dimensions(self._endpoint.vectors(items), self.spec)


def check(endpoint: PoolingEndpoint, local: CachedEmbedder, items: Sequence[EmbedItem]) -> PromptAgreement:
    """Compare the two on the same items. CheckpointError below a cosine of 0.999, or when a length is off by more than
    2 %, which says more of the server's settings than of its arithmetic."""
    theirs = _check_dimensions(endpoint.vectors(items), local.spec)
    a, b = local.embed_all(items).astype(np.float64), np.stack([vector.values for vector in theirs]).astype(np.float64)
    long_a, long_b = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    agreement = PromptAgreement(
        endpoint=endpoint.config,
        spec=local.spec,
        items=len(items),
        cosine=float(((a * b).sum(1) / np.maximum(long_a * long_b, 1e-12)).min()),
        length=float(np.abs(long_b / long_a - 1).max()),
    )
    _require(agreement)
    return agreement


def _require(agreement: PromptAgreement) -> None:
    where = agreement.endpoint.place
    if agreement.cosine < COSINE:
        raise CheckpointError(
            f"{where} embeds otherwise than {agreement.spec.model} does here: the least cosine of {agreement.items} "
            f"inputs is {agreement.cosine:.4f}, below {COSINE}. Serve the same model with "
            f"--pooler-config '{_POOLER}' and the same pixels"
        )
    if agreement.length > LENGTH:
        raise CheckpointError(
            f"{where} gives vectors of another length than {agreement.spec.model} does here, by up to "
            f"{100 * agreement.length:.0f} %, above {100 * LENGTH:.0f} %: Q was trained on vectors as they are. "
            f"Serve it with --pooler-config '{_POOLER}'"
        )


def _check_dimensions(vectors: list[Vector], spec: EmbedSpec) -> list[Vector]:
    for values, _ in vectors:
        if values.shape != (spec.dim,):
            raise CheckpointError(f"the endpoint's vectors have {values.size} numbers, {spec.model}'s {spec.dim}")
        if not np.isfinite(values).all():
            raise CheckpointError(f"the endpoint's vectors hold NaN or infinity where {spec.model}'s do not")
    return vectors


def _content(item: EmbedItem) -> dict[str, Any]:
    if not item.screenshots:
        return {"input": item.text}
    content = [*map(image_part, item.screenshots), {"type": "text", "text": item.text}]
    return {"messages": [{"role": "user", "content": content}], "chat_template": _TEMPLATE}
