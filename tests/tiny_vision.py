"""Vision-language models of some 60,000 random weights, with real tokenizer and processor classes, and pictures."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import pre_tokenizers
from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig, Qwen2Tokenizer, Qwen3VLConfig

from bestofq.core.observation import Screenshot

CONTROL = ("<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")

PREPROCESSOR = {  # as published with Qwen2.5-VL-3B-Instruct
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
}
_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
_TEXT = {**_SMALL, "num_key_value_heads": 2, "initializer_range": 0.3, "rope_parameters": _ROPE}
_EYES = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "out_hidden_size": 32}


def save_tiny_vision(folder: Path, *, seed: int = 3) -> Path:
    """The checkpoint, saved as the published ones are."""
    tokenizer = tiny_tokenizer()
    text = {**_TEXT, "max_position_embeddings": 2048, "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    eyes = {**_EYES, "fullatt_block_indexes": [1], "initializer_range": 0.3}
    return save(folder, Qwen2_5_VLConfig(**parts(tokenizer, text, eyes)), tokenizer, PREPROCESSOR, seed)


def save_tiny_qwen3_vl(folder: Path) -> Path:
    tokenizer = tiny_tokenizer()
    eyes = {**_EYES, "patch_size": 16, "deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    config = Qwen3VLConfig(**parts(tokenizer, {**_TEXT, "head_dim": 8}, eyes))
    return save(folder, config, tokenizer, {**PREPROCESSOR, "patch_size": 16})


def parts(tokenizer: Qwen2Tokenizer, text: dict[str, Any], eyes: dict[str, Any]) -> dict[str, Any]:
    """A configuration of both parts, with the tokenizer's control tokens."""
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(list(CONTROL[1:])), strict=True))
    return {"text_config": {**text, "vocab_size": len(tokenizer)}, "vision_config": eyes, **ids}


def save(folder: Path, config: Any, tokenizer: Qwen2Tokenizer, preprocessor: dict[str, Any], seed: int = 3) -> Path:
    torch.manual_seed(seed)
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return folder


def tiny_tokenizer() -> Qwen2Tokenizer:
    """Bytes, a few merges, and the control tokens of Qwen2.5-VL."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("r", "e"), ("re", "d"), ("Ġ", "red"), ("b", "u"), ("bu", "y")]
    words = [*alphabet, *map("".join, merges)]
    tokenizer = Qwen2Tokenizer(vocab={word: i for i, word in enumerate(words)}, merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": list(CONTROL[1:])})
    return tokenizer


def picture(width: int, height: int, seed: int = 0) -> Screenshot:
    """Noise, as a PNG."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    data = file.getvalue()
    return Screenshot(
        sha256=hashlib.sha256(data).hexdigest(), media_type="image/png", width=width, height=height, data=data
    )
