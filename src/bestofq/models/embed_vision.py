"""Embeddings of text and pictures by a vision-language model of the Qwen2.5-VL family (Best-of-Q, A.3).

The paper's embedders are Qwen2.5-VL-3B (2048 numbers) and 7B (3584; Table 12); Holo1-7B is of the same family. An item
is read as Qwen2.5-VL reads a prompt, its pictures before its text, without a chat's frame; what is pooled is the last
hidden state over all of its tokens, the pictures' among them.
"""

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import torch
import transformers  # its classes are named where they are used: each takes a second to import
from PIL import Image, UnidentifiedImageError
from transformers.utils.logging import disable_progress_bar

from bestofq.core.embedding import DEFAULTS, EmbedConfig, EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, DataError, ModelError, SetupError
from bestofq.core.observation import Screenshot
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.embed import LocalEmbedder
from bestofq.models.local import LocalModel, Precision, placed, weights_hash
from bestofq.models.pooling import hidden_states, padded, pooled

FAMILY = ("qwen2_5_vl",)
_GROW_AFTER = 64  # batches in a row that fitted
Item = TypeVar("Item")
Result = TypeVar("Result")


class Reading(NamedTuple):
    """What an item's text becomes, and the pictures that stand before it."""

    ids: Sequence[int]
    screenshots: Sequence[Screenshot]


class MicroBatches:
    """Work in batches of at most `area` padded tokens (items × the longest of them). Where a batch runs out of memory,
    the area is halved and what failed is done again; after enough that fitted it doubles, up to where it began.
    """

    def __init__(self, area: int) -> None:
        self.area = area
        self._most = area
        self._fitted = 0

    def run(
        self, work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item], lengths: Sequence[int]
    ) -> list[Result]:
        """The result for each item, in their order; alike `lengths` [tokens] run together. ModelError where one item
        alone does not fit into memory."""
        results: dict[int, Result] = {}
        todo = sorted(range(len(items)), key=lambda i: lengths[i], reverse=True)  # what hardly fits is tried first
        while todo:
            size = max(1, min(len(todo), self.area // max(1, lengths[todo[0]])))
            group = todo[:size]
            done = _unless_full(work, [items[i] for i in group])
            if done is not None:
                results.update(zip(group, done, strict=True))
                todo = todo[size:]
                self._fits()
            elif size > 1:
                self.area, self._fitted = size * lengths[todo[0]] // 2, 0
            else:
                raise ModelError(
                    f"an input of {lengths[todo[0]]} tokens does not fit into the device's memory: "
                    "allow fewer pixels a picture, or take a smaller model"
                )
        return [results[i] for i in range(len(items))]

    def _fits(self) -> None:
        self._fitted += 1
        if self._fitted >= _GROW_AFTER:
            self.area, self._fitted = min(2 * self.area, self._most), 0


def _unless_full(work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item]) -> Sequence[Result] | None:
    """The results, or None where memory ran out; what the failed attempt held is given back."""
    try:
        return work(items)
    except torch.OutOfMemoryError:
        pass  # leaving the handler lets go of the tensors that the error's frames hold
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


class VisionEmbedder(CachedEmbedder):
    """`Embedder` over a frozen vision-language model on one device."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pictures: Any,
        *,
        name: str,
        revision: str,
        config: EmbedConfig = DEFAULTS,
        area: int = 2**15,
    ) -> None:
        """`model`: without its language-model head. `pictures`: its image processor, whose least and largest area the
        spec holds; None: texts only. `area`: padded tokens a micro-batch, at most."""
        spec = EmbedSpec(
            model=name,
            revision=revision,
            pixels=pictures.size["longest_edge"] if pictures else 0,
            pixels_least=pictures.size["shortest_edge"] if pictures else 0,
            **config.model_dump(include={"prompt", "layer", "pooling"}),
            dim=model.config.get_text_config().hidden_size,
        )
        super().__init__(spec, batch=256)
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._pictures = pictures
        self._device: torch.device = next(model.parameters()).device
        self._batches = MicroBatches(area)

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "auto", precision: Precision = "auto", config: EmbedConfig = DEFAULTS
    ) -> Self:
        """Load a transformers directory or hub name. Where `config.pixels` is 0 it reads texts only. SetupError when it
        cannot be found or is of another family, ConfigError on another context than "alone"."""
        if config.context != "alone":
            raise ConfigError(
                f"{path} embeds texts alone, not in the context {config.context}: set embed_context to alone"
            )
        target, dtype = placed(device, precision)
        disable_progress_bar()
        try:
            whole = transformers.AutoModelForImageTextToText.from_pretrained(
                path, dtype=dtype, attn_implementation="sdpa"
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            # Pillow's, even where torchvision is there: a vector must not depend on what else is installed.
            pictures = transformers.AutoImageProcessor.from_pretrained(path, backend="pil") if config.pixels else None
        except (OSError, ValueError) as error:
            raise SetupError(f"no vision-language model at {path}: give a transformers directory ({error})") from error
        found = whole.config
        if found.model_type not in FAMILY:
            raise SetupError(f"{path} is a {found.model_type}: pictures are embedded by {', '.join(FAMILY)} only")
        if pictures:
            # Areas, in spite of their names; set here, since a checkpoint's own go before what is asked for.
            pictures.size = {"shortest_edge": config.pixels_least, "longest_edge": config.pixels}
        revision = getattr(found, "_commit_hash", None) or weights_hash(Path(path))
        return cls(whole.model.to(target), tokenizer, pictures, name=Path(path).name, revision=revision, config=config)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        if any(item.context or item.answer for item in items):
            raise ConfigError(f"{self.spec.model} embeds texts alone: set embed_context to alone (Best-of-Q, A.3)")
        if self._pictures is None and any(item.screenshots for item in items):
            raise ConfigError(f"{self.spec.model} was loaded for texts only: allow pictures more than 0 pixels")
        # No text of a page becomes a control token, such as the one that stands for a picture.
        texts = self._tokenizer(
            [item.text for item in items],
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
        )["input_ids"]
        rows = [Reading(ids, item.screenshots) for ids, item in zip(texts, items, strict=True)]
        return self._batches.run(self._embed, rows, [self._length(row) for row in rows])

    def _length(self, row: Reading) -> int:
        """Tokens, by what the screenshots say of their size."""
        tokens = len(row.ids)
        for shot in row.screenshots:
            patches = int(self._pictures.get_number_of_image_patches(shot.height, shot.width))
            tokens += patches // self._pictures.merge_size**2 + 2
        return tokens

    @torch.inference_mode()
    def _embed(self, rows: Sequence[Reading]) -> list[Vector]:
        config, inputs = self._model.config, {}
        shots = [shot for row in rows for shot in row.screenshots]
        counts: list[int] = []
        if shots:
            seen = self._pictures([_opened(shot) for shot in shots], return_tensors="pt").to(self._device)
            counts = (seen["image_grid_thw"].prod(-1) // self._pictures.merge_size**2).tolist()
            inputs = {"pixel_values": seen["pixel_values"], "image_grid_thw": seen["image_grid_thw"]}
        ends = [0]
        for row in rows:
            ends.append(ends[-1] + len(row.screenshots))
        frames = [
            [config.vision_start_token_id, *[config.image_token_id] * count, config.vision_end_token_id]
            for count in counts
        ]
        read = [
            [token for frame in frames[first:last] for token in frame] + list(row.ids or [self._tokenizer.pad_token_id])
            for row, (first, last) in zip(rows, pairwise(ends), strict=True)
        ]
        ids, own = padded(read, self._device)
        if shots:
            inputs["mm_token_type_ids"] = ((ids == config.image_token_id) & own).int()
        hidden = hidden_states(self._model, self.spec.layer, input_ids=ids, use_cache=False, **inputs)
        vectors = pooled(hidden, own, self.spec.pooling)
        return [Vector(vector, len(tokens)) for vector, tokens in zip(vectors, read, strict=True)]


def load_embedder(
    path: str | Path, config: EmbedConfig = DEFAULTS, *, device: str = "auto", precision: Precision = "auto"
) -> CachedEmbedder:
    """A vision-language model's where the checkpoint's configuration says it is one, else a language model's, of texts
    alone. SetupError when it cannot be found, ConfigError on a context that the model cannot give."""
    try:
        kind = transformers.AutoConfig.from_pretrained(path).model_type
    except (OSError, ValueError) as error:
        raise SetupError(f"no model at {path}: give a transformers directory or a hub name ({error})") from error
    if kind in FAMILY:
        return VisionEmbedder.load(path, device=device, precision=precision, config=config)
    return LocalEmbedder(LocalModel.load(path, device=device, precision=precision), config)


def _opened(shot: Screenshot) -> Image.Image:
    if not shot.data:
        raise DataError(f"screenshot {shot.sha256[:12]} came without its bytes: read it from the store first")
    try:
        return Image.open(io.BytesIO(shot.data)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"screenshot {shot.sha256[:12]} is no picture: {error}") from error
