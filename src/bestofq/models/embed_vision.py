"""Embeddings of text and pictures by a vision-language model (Best-of-Q, A.3).

The paper's embedders are Qwen2.5-VL-3B (2048 numbers) and 7B (3584; Table 12); Holo1-7B is of the same family. What is
pooled is the last hidden state over all tokens of an item, its pictures' among them (`vision_readers`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
import transformers  # its classes are named where they are used: each takes a second to import
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as VISION

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ModelError, SetupError
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.checkpoints import Precision, gguf_of, load_checkpoint
from bestofq.models.embed import LocalEmbedder
from bestofq.models.local import LocalModel
from bestofq.models.pooling import hidden_states, pool_vectors
from bestofq.models.vision_readers import QWEN, Inputs, ProcessorReader, QwenReader, Reader
from bestofq.models.windows import at_once

_GROW_AFTER = 64  # batches in a row that fitted
Item = TypeVar("Item")
Read = TypeVar("Read")
Result = TypeVar("Result")


class MicroBatches:
    """Work in batches of at most `area` padded tokens (items × the longest of them). Where a batch runs out of memory,
    the area is halved and what failed is done again; after enough that fitted it doubles, up to where it began.
    """

    def __init__(self, area: int) -> None:
        self.area = area
        self._most = area
        self._fitted = 0

    def run(
        self,
        work: Callable[[Read], Sequence[Result]],
        items: Sequence[Item],
        lengths: Sequence[int],
        read: Callable[[Sequence[Item]], Read],
    ) -> list[Result]:
        """The result for each item, in order; alike `lengths` run together. `work` gets what `read` makes of a batch,
        which a thread does ahead, while `work` has the batch before. ModelError where one alone does not fit."""
        results: dict[int, Result] = {}
        todo = sorted(range(len(items)), key=lambda i: lengths[i], reverse=True)  # what hardly fits is tried first
        with ThreadPoolExecutor(1) as thread:
            ahead: tuple[list[int], Future[Read] | None] = ([], None)
            while todo:
                group = self._first(todo, lengths)
                mine = ahead[1] if ahead[0] == group else None
                mine = mine or thread.submit(read, [items[i] for i in group])
                if following := self._first(todo[len(group) :], lengths):
                    ahead = (following, thread.submit(read, [items[i] for i in following]))
                done = None
                with suppress(torch.OutOfMemoryError):  # leaving it lets go of the tensors that the error's frames hold
                    done = work(mine.result())
                if done is not None:
                    results.update(zip(group, done, strict=True))
                    todo = todo[len(group) :]
                    self._fitted += 1
                    if self._fitted >= _GROW_AFTER:
                        self.area, self._fitted = min(2 * self.area, self._most), 0
                elif len(group) > 1:
                    torch.cuda.empty_cache()
                    self.area, self._fitted = len(group) * lengths[todo[0]] // 2, 0
                else:
                    raise ModelError(
                        f"an input of {lengths[todo[0]]} tokens does not fit into the device's memory: "
                        "allow fewer pixels a picture, or take a smaller model"
                    )
        return [results[i] for i in range(len(items))]

    def _first(self, todo: list[int], lengths: Sequence[int]) -> list[int]:
        """The next batch of what is to do, the longest first."""
        return todo[: max(1, self.area // max(1, lengths[todo[0]]))] if todo else []


class VisionEmbedder(CachedEmbedder):
    """`Embedder` over a frozen vision-language model on one device."""

    def __init__(
        self,
        model: Any,
        reader: Reader,
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
            tokens=reader.tokens,
            **config.model_dump(include={"prompt", "layer", "pooling", "action", "state", "pixels"}),
            pixels_least=config.pixels_least if config.pixels else 0,
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
                f"{path} embeds texts alone, not in the context {config.context}: set embed_context=alone"
            )
        try:
            auto = transformers.AutoModelForImageTextToText
            whole, tokenizer, target, revision = load_checkpoint(auto, path, device, precision)
            qwen = whole.config.model_type in QWEN
            reader = QwenReader(path, tokenizer, whole, config) if qwen else ProcessorReader(path, config)
            if qwen:
                at_once(whole.model.visual)
        except (OSError, ValueError) as error:
            raise SetupError(f"no vision-language model at {path}: give a transformers directory ({error})") from error
        return cls(whole.model.to(target), reader, name=Path(path).name, revision=revision, config=config)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.context or item.answer for item in items):
            raise ConfigError(f"{self.spec.model} embeds texts alone: set embed_context to alone (Best-of-Q, A.3)")
        if not self.spec.pixels and any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} was loaded for texts only: allow pictures more than 0 pixels")
        return self._batches.run(self._embed, items, [self._reader.length(item) for item in items], self._read)

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
    """A vision-language model's where transformers knows the checkpoint's kind as one, else a language model's, of
    texts alone. SetupError when it cannot be found, ConfigError on a context that the model cannot give."""
    place, gguf = gguf_of(path)
    try:
        kind = transformers.AutoConfig.from_pretrained(place, **gguf).model_type
    except (OSError, ValueError) as error:
        raise SetupError(f"no model at {path}: give a transformers directory or a hub name ({error})") from error
    if kind in VISION:
        return VisionEmbedder.load(path, device=device, precision=precision, config=config)
    return LocalEmbedder(LocalModel.load(path, device=device, precision=precision), config)
