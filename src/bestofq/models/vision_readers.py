"""What a vision-language model is given for a text and its pictures (Best-of-Q, A.3): the pictures before the text,
without a chat's frame. No text of a page becomes a control token, such as the one that stands for a picture.

`QwenReader` reads as Qwen's models do, without torchvision, which their processor asks for; `ProcessorReader` reads as
any checkpoint's own processor does.
"""

import io
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import transformers  # its classes are named where they are used: each takes a second to import
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from bestofq.core.embedding import EmbedConfig, EmbedItem, Tokens
from bestofq.core.errors import DataError, SetupError
from bestofq.core.observation import Screenshot
from bestofq.core.picture import PictureLimits
from bestofq.models.pooling import pad_ids

_MOST_THREADS = 8  # that prepare pictures
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


class Inputs(NamedTuple):
    """A batch for the model, and which of its tokens are pooled [B, T]; in host memory when it is read."""

    model: dict[str, Tensor]
    own: Tensor


class Reader(Protocol):
    """How items become a model's inputs. `tokens`: which of them are pooled, see `EmbedSpec`."""

    tokens: Tokens

    def length(self, item: EmbedItem) -> int:
        """Tokens, by what the pictures say of their size."""

    def read(self, items: Sequence[EmbedItem]) -> Inputs:
        """DataError for a picture that came without its bytes, or is none."""


class QwenReader:
    """`Reader` for `QWEN`."""

    tokens: Tokens = "all"

    def __init__(self, path: str | Path, tokenizer: Any, model: Any, config: EmbedConfig) -> None:
        self._tokenizer, self._config = tokenizer, model.config
        if config.pixels:
            # Pillow's, even where torchvision is there: a vector must not depend on what else is installed.
            self._pictures = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
            # Areas, in spite of their names; set here, since a checkpoint's own go before what is asked for.
            self._pictures.size = {"shortest_edge": config.pixels_least, "longest_edge": config.pixels}
            self._merged: int = self._pictures.merge_size**2
            self._threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))  # Pillow lets others run

    def length(self, item: EmbedItem) -> int:
        sizes = ((shot.height, shot.width) for shot in item.screenshots)
        patches = [int(self._pictures.get_number_of_image_patches(*size)) for size in sizes]
        return len(self._ids(item)) + sum(n // self._merged + 2 for n in patches)

    def read(self, items: Sequence[EmbedItem]) -> Inputs:
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
        """One picture's patches and their grid."""
        return self._pictures([open_image(shot)], return_tensors="pt")

    def _ids(self, item: EmbedItem) -> list[int]:
        ids: list[int] = self._tokenizer.encode(item.text, add_special_tokens=False, split_special_tokens=True)
        return ids


class ProcessorReader:
    """`Reader` by the checkpoint's own processor. A start token is read and not pooled. Pictures are shrunk to the most
    pixels that are asked for; what the processor makes of them then is its own affair."""

    tokens: Tokens = "own"

    def __init__(self, path: str | Path, config: EmbedConfig) -> None:
        try:
            self._processor = transformers.AutoProcessor.from_pretrained(path, backend="pil")
        except ImportError as error:
            raise SetupError(f"the processor of {path} needs a package more: {error}") from error
        self._tokenizer = self._processor.tokenizer
        self._tokenizer.padding_side = "right"  # where a causal model cannot see it
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._limits = PictureLimits(most=config.pixels or 1)
        signs = {*self._tokenizer.get_added_vocab(), self._processor.image_token}
        self._control = re.compile("|".join(map(re.escape, sorted(signs, key=len, reverse=True))))

    def length(self, item: EmbedItem) -> int:
        tokens = len(self._tokenizer.encode(self._text(item)))
        if item.screenshots:
            sizes = [self._size(shot)[::-1] for shot in item.screenshots]
            tokens += sum(self._processor._get_num_multimodal_tokens(image_sizes=sizes)["num_image_tokens"])
        return tokens

    def read(self, items: Sequence[EmbedItem]) -> Inputs:
        pictures = [[open_image(s).resize(self._size(s)) for s in item.screenshots] for item in items]
        found = self._processor(
            text=[self._processor.image_token * len(i.screenshots) + self._text(i) for i in items],
            images=pictures if any(pictures) else None,
            padding=True,
            return_tensors="pt",
        )
        own = found["attention_mask"].bool()
        start = self._tokenizer.bos_token_id
        if start is not None:
            own[:, 0] &= found["input_ids"][:, 0] != start
        return Inputs(dict(found), own)

    def _size(self, shot: Screenshot) -> tuple[int, int]:
        return self._limits.size(shot.width, shot.height)

    def _text(self, item: EmbedItem) -> str:
        """With a space inside all that looks like a control token."""
        return self._control.sub(lambda sign: f"{sign[0][:1]} {sign[0][1:]}", item.text) or " "


def open_image(shot: Screenshot) -> Image.Image:
    """Its pixels. DataError for a picture that came without its bytes, or is none."""
    if not shot.data:
        raise DataError(f"screenshot {shot.sha256[:12]} came without its bytes: read it from the store first")
    try:
        return Image.open(io.BytesIO(shot.data)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"screenshot {shot.sha256[:12]} is no picture: {error}") from error
