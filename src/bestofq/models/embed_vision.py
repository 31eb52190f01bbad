"""Embeddings of text and pictures by a vision-language model (Best-of-Q, A.3).

The paper's embedders are Qwen2.5-VL-3B (2048 numbers) and 7B (3584; Table 12); Holo1-7B belongs to the same
family. The last hidden state is pooled over all tokens of an item, with those of its pictures.
"""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import torch
import transformers  # its classes are named where they are used: each takes a second to import
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as VISION

from bestofq.core.embedding import DEFAULTS, PIXELS_LEAST, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, DataError, ModelError, SetupError
from bestofq.core.observation import Screenshot
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.checkpoints import Precision, folder_of, load_checkpoint
from bestofq.models.decoding import pad_ids
from bestofq.models.embed import LocalEmbedder, hidden_states, pool_vectors
from bestofq.models.embed_text import SentenceEmbedder, is_sentence_encoder
from bestofq.models.local import LocalModel

_MOST_THREADS = 8  # that prepare pictures
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


class Inputs(NamedTuple):
    """A batch for the model, and which of its tokens are pooled [B, T]; in host memory when it is read."""

    model: dict[str, Tensor]
    own: Tensor


class QwenReader:
    """How items become the inputs of a model of `QWEN`."""

    def __init__(self, path: str | Path, tokenizer: Any, model: Any, config: EmbedConfig) -> None:
        self._tokenizer, self._config = tokenizer, model.config
        if config.pixels:
            # Pillow's, even where torchvision is there: a vector must not depend on what else is installed.
            self._pictures = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
            # Areas, in spite of their names; set here, since a checkpoint's own go before what is asked for.
            self._pictures.size = {"shortest_edge": PIXELS_LEAST, "longest_edge": config.pixels}
            self._merged: int = self._pictures.merge_size**2
            self._threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))  # Pillow lets others run

    def length(self, item: EmbedItem) -> int:
        """Return an item's tokens, by what its pictures say of their size."""
        sizes = ((shot.height, shot.width) for shot in item.screenshots)
        patches = [int(self._pictures.get_number_of_image_patches(*size)) for size in sizes]
        return len(self._ids(item)) + sum(n // self._merged + 2 for n in patches)

    def read(self, items: Sequence[EmbedItem]) -> Inputs:
        """Return a batch. DataError for a picture that came without its bytes, or is none."""
        config, inputs = self._config, {}
        counts: Iterator[int] = iter(())  # of each picture's tokens
        if shots := [shot for item in items for shot in item.screenshots]:
            seen = [*self._threads.map(self._seen, shots)]
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
        return Inputs({"input_ids": ids, **inputs}, own)

    def _seen(self, shot: Screenshot) -> Any:
        return self._pictures([open_image(shot)], return_tensors="pt")

    def _ids(self, item: EmbedItem) -> list[int]:
        ids: list[int] = self._tokenizer.encode(item.text, add_special_tokens=False, split_special_tokens=True)
        return ids


def open_image(shot: Screenshot) -> Image.Image:
    """Its pixels. DataError for a picture that came without its bytes, or is none."""
    if not shot.data:
        raise DataError(f"screenshot {shot.sha256[:12]} came without its bytes: read it from the store first")
    try:
        return Image.open(io.BytesIO(shot.data)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"screenshot {shot.sha256[:12]} is no picture: {error}") from error


Item = TypeVar("Item")
Result = TypeVar("Result")


class MicroBatches:
    """Work in batches of at most `area` padded tokens (items × the longest of them). Where a batch runs out of memory,
    the area is halved, for good, and what failed is done again.
    """

    def __init__(self, area: int) -> None:
        self.area = area

    def run(
        self, work: Callable[[list[Item]], Sequence[Result]], items: Sequence[Item], lengths: Sequence[int]
    ) -> list[Result]:
        """The result for each item, in order; alike `lengths` run together. ModelError if one alone does not fit."""
        results: dict[int, Result] = {}
        todo = sorted(range(len(items)), key=lambda i: lengths[i], reverse=True)  # what hardly fits is tried first
        while todo:
            longest = lengths[todo[0]]
            group = todo[: max(1, self.area // max(1, longest))]
            done = None
            with suppress(torch.OutOfMemoryError):  # leaving it lets go of the tensors that the error's frames hold
                done = work([items[i] for i in group])
            if done is not None:
                results.update(zip(group, done, strict=True))
                todo = todo[len(group) :]
            elif len(group) > 1:
                torch.cuda.empty_cache()
                self.area = len(group) * longest // 2
            else:
                raise ModelError(
                    f"an input of {longest} tokens does not fit into the device's memory: allow fewer pixels a "
                    "picture, or take a smaller model"
                )
        return [results[i] for i in range(len(items))]


class VisionEmbedder(CachedEmbedder):
    """`Embedder` over a frozen vision-language model on one device."""

    def __init__(
        self,
        model: Any,
        reader: QwenReader,
        *,
        name: str,
        revision: str,
        config: EmbedConfig = DEFAULTS,
        area: int = 2**15,
    ) -> None:
        """`model`: without its language-model head. `area`: padded tokens a micro-batch, at most."""
        spec = EmbedSpec(
            model=name,
            revision=revision,
            **config.model_dump(include={"prompt", "layer", "pooling", "action", "state", "pixels"}),
            pixels_least=PIXELS_LEAST if config.pixels else 0,
            dim=model.config.get_text_config().hidden_size,
        )
        super().__init__(spec, batch=256)
        self._model = model.eval().requires_grad_(False)
        self._reader = reader
        self._device: torch.device = next(model.parameters()).device
        self._batches = MicroBatches(area)

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
            reader = QwenReader(path, tokenizer, whole, config)
        except (OSError, ValueError) as error:
            raise SetupError(f"no vision-language model at {path}: give a transformers directory ({error})") from error
        return cls(whole.model.to(target), reader, name=Path(path).name, revision=revision, config=config)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.answer for item in items):
            raise ConfigError(f"{self.spec.model} embeds texts alone: set model.embed.context=alone (Best-of-Q, A.3)")
        if not self.spec.pixels and any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} was loaded for texts only: allow pictures more than 0 pixels")
        lengths = [self._reader.length(item) for item in items]
        return self._batches.run(lambda some: self._embed(self._read(some)), items, lengths)

    def _read(self, items: Sequence[EmbedItem]) -> Inputs:
        """In host memory, pinned where a GPU is to copy it."""
        inputs, own = self._reader.read(items)
        if self._device.type == "cuda":
            return Inputs({name: tensor.pin_memory() for name, tensor in inputs.items()}, own.pin_memory())
        return Inputs(inputs, own)

    @torch.inference_mode()
    def _embed(self, read: Inputs) -> list[Vector]:
        inputs = {name: tensor.to(self._device, non_blocking=True) for name, tensor in read.model.items()}
        own = read.own.to(self._device, non_blocking=True)
        vectors = pool_vectors(
            hidden_states(self._model, self.spec.layer, use_cache=False, **inputs), own, self.spec.pooling
        )
        return [Vector(vector, tokens) for vector, tokens in zip(vectors, own.sum(1).tolist(), strict=True)]


def load_embedder(
    path: str | Path, config: EmbedConfig = DEFAULTS, *, device: str = "auto", precision: Precision = "auto"
) -> CachedEmbedder:
    """The embedder of a checkpoint of `QWEN`, of a sentence encoder or a language model, which read texts alone.

    SetupError if it cannot be found, ConfigError for another kind of model or an impossible context.
    """
    place = folder_of(path)
    if is_sentence_encoder(place):
        return SentenceEmbedder.load(path, config, device=device, precision=precision)
    try:
        known = transformers.AutoConfig.from_pretrained(place)
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
            f"{path} is a {classes[0]}, which writes no text, and no modules.json says how it embeds: save it by "
            "sentence-transformers, or name a language model or a sentence encoder"
        )
    return LocalEmbedder(LocalModel.load(path, device=device, precision=precision), config)
