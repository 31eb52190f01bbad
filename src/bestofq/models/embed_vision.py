"""Embeddings of text and pictures by a vision-language model (Best-of-Q, A.3).

The paper's embedders are Qwen2.5-VL-3B (2048 numbers) and 7B (3584; Table 12); Holo1-7B belongs to the same
family. The last hidden state is pooled over all tokens of an item, with those of its pictures.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
import transformers  # its classes are named where they are used: each takes a second to import
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as VISION

from bestofq.core.embedding import DEFAULTS, PIXELS_LEAST, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, DataError, SetupError
from bestofq.core.observation import Screenshot
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.checkpoints import Precision, load_checkpoint
from bestofq.models.decoding import pad_ids
from bestofq.models.embed import LocalEmbedder, hidden_states, pool_vectors
from bestofq.models.local import LocalModel

_MOST_THREADS = 8  # that prepare pictures
AREA = 2**14  # padded tokens of a batch, at most: its items times the longest of them
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


def open_image(shot: Screenshot) -> Image.Image:
    """Its pixels. DataError for a picture that came without its bytes, or is none."""
    if not shot.data:
        raise DataError(f"screenshot {shot.sha256[:12]} came without its bytes: read it from the store first")
    try:
        return Image.open(io.BytesIO(shot.data)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"screenshot {shot.sha256[:12]} is no picture: {error}") from error


class VisionEmbedder(CachedEmbedder):
    """`Embedder` over a frozen vision-language model of `QWEN`, without its language-model head, on one device."""

    def __init__(
        self, model: Any, tokenizer: Any, path: str | Path, *, name: str, revision: str, config: EmbedConfig = DEFAULTS
    ) -> None:
        """`path`: of the checkpoint, for how pictures are prepared."""
        spec = EmbedSpec(
            model=name,
            revision=revision,
            **config.model_dump(include={"prompt", "layer", "pooling", "action", "state", "pixels"}),
            pixels_least=PIXELS_LEAST if config.pixels else 0,
            dim=model.config.get_text_config().hidden_size,
        )
        super().__init__(spec, batch=256)
        self._model, self._tokenizer = model.eval().requires_grad_(False), tokenizer
        self._device: torch.device = next(model.parameters()).device
        if config.pixels:
            # Pillow's, even where torchvision is there: a vector must not depend on what else is installed.
            self._pictures = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
            # Areas, in spite of their names; set here, since a checkpoint's own go before what is asked for.
            self._pictures.size = {"shortest_edge": PIXELS_LEAST, "longest_edge": config.pixels}
            self._merged: int = self._pictures.merge_size**2
            self._threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))  # Pillow lets others run

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "auto", precision: Precision = "auto", config: EmbedConfig = DEFAULTS
    ) -> Self:
        """Load a transformers directory or hub name. Where `config.pixels` is 0 it reads texts only. SetupError when it
        cannot be found, ConfigError on another context than "alone"."""
        if config.context != "alone":
            raise ConfigError(
                f"{path} embeds texts alone, not in the context {config.context}: set model.embed.context=alone"
            )
        try:
            auto = transformers.AutoModelForImageTextToText
            whole, tokenizer, target, revision = load_checkpoint(auto, path, device, precision)
            name, model = Path(path).name, whole.model.to(target)
            return cls(model, tokenizer, path, name=name, revision=revision, config=config)
        except (OSError, ValueError) as error:
            raise SetupError(f"no vision-language model at {path}: give a transformers directory ({error})") from error

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.answer for item in items):
            raise ConfigError(f"{self.spec.model} embeds texts alone: set model.embed.context=alone (Best-of-Q, A.3)")
        if not self.spec.pixels and any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} was loaded for texts only: allow pictures more than 0 pixels")
        lengths = [self._length(item) for item in items]
        left = sorted(range(len(items)), key=lengths.__getitem__, reverse=True)  # alike lengths together
        vectors: dict[int, Vector] = {}
        while left:
            count = max(1, AREA // max(1, lengths[left[0]]))
            batch, left = left[:count], left[count:]
            vectors.update(zip(batch, self._embed(*self._read([items[i] for i in batch])), strict=True))
        return [vectors[i] for i in range(len(items))]

    def _length(self, item: EmbedItem) -> int:
        """Return an item's tokens, by what its pictures say of their size."""
        sizes = ((shot.height, shot.width) for shot in item.screenshots)
        patches = [int(self._pictures.get_number_of_image_patches(*size)) for size in sizes]
        return len(self._ids(item)) + sum(n // self._merged + 2 for n in patches)

    def _read(self, items: Sequence[EmbedItem]) -> tuple[dict[str, Tensor], Tensor]:
        """Return a batch for the model, and which of its tokens are pooled [B, T]; in host memory, pinned where a GPU
        is to copy it. DataError for a picture that came without its bytes, or is none."""
        config, inputs = self._model.config, {}
        counts: Iterator[int] = iter(())  # of each picture's tokens
        if shots := [shot for item in items for shot in item.screenshots]:
            seen = [*self._threads.map(self._prepare, shots)]
            inputs = {name: torch.cat([one[name] for one in seen]) for name in ("pixel_values", "image_grid_thw")}
            counts = iter((inputs["image_grid_thw"].prod(-1) // self._merged).tolist())
        rows: list[list[int]] = []
        for item in items:
            tokens: list[int] = []
            for count in islice(counts, len(item.screenshots)):
                tokens += [config.vision_start_token_id, *[config.image_token_id] * count, config.vision_end_token_id]
            rows.append([*tokens, *(self._ids(item) or [self._tokenizer.pad_token_id])])
        ids, own = pad_ids(rows, torch.device("cpu"))
        if shots:
            inputs["mm_token_type_ids"] = ((ids == config.image_token_id) & own).int()
        inputs["input_ids"] = ids
        if self._device.type == "cuda":
            return {name: tensor.pin_memory() for name, tensor in inputs.items()}, own.pin_memory()
        return inputs, own

    def _prepare(self, shot: Screenshot) -> Any:
        return self._pictures([open_image(shot)], return_tensors="pt")

    def _ids(self, item: EmbedItem) -> list[int]:
        ids: list[int] = self._tokenizer.encode(item.text, add_special_tokens=False, split_special_tokens=True)
        return ids

    @torch.inference_mode()
    def _embed(self, inputs: Mapping[str, Tensor], own: Tensor) -> list[Vector]:
        inputs = {name: tensor.to(self._device, non_blocking=True) for name, tensor in inputs.items()}
        own = own.to(self._device, non_blocking=True)
        hidden = hidden_states(self._model, self.spec.layer, use_cache=False, **inputs)
        vectors = pool_vectors(hidden, own, self.spec.pooling)
        return [Vector(vector, tokens) for vector, tokens in zip(vectors, own.sum(1).tolist(), strict=True)]


def load_embedder(
    path: str | Path, config: EmbedConfig = DEFAULTS, *, device: str = "auto", precision: Precision = "auto"
) -> CachedEmbedder:
    """The embedder of a checkpoint of `QWEN`, or of a language model, which reads texts alone.

    SetupError if it cannot be found, ConfigError for another kind of model or an impossible context.
    """
    try:
        known = transformers.AutoConfig.from_pretrained(path)
        kind, classes = known.model_type, known.architectures or ()
    except (OSError, ValueError) as error:
        raise SetupError(f"no model at {path}: give a transformers directory or a hub name ({error})") from error
    if kind in QWEN:
        return VisionEmbedder.load(path, device=device, precision=precision, config=config)
    if kind in VISION:
        raise ConfigError(
            f"{path} is of the kind {kind}, and pictures are embedded by {', '.join(QWEN)}: name one of these"
        )
    if classes and not any("CausalLM" in name or "LMHead" in name for name in classes):
        raise ConfigError(
            f"{path} is a {classes[0]}, which writes no text: serve it with /v1/embeddings and set "
            "endpoints.embedder.model and its base_url, or name a language model"
        )
    return LocalEmbedder(LocalModel.load(path, device=device, precision=precision), config)
