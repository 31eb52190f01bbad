"""How much GPU memory a tuning takes, on paper: from a model's configuration, before any weight is there."""

from typing import NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from bestofq.learning.config import TuningConfig
from bestofq.learning.tuning import with_adapters

TRAINED = 16  # bytes of a trained parameter in float32: itself, its gradient, two of Adam
REPLIES = 8  # one token of so many is of a reply


class Memory(NamedTuple):
    """Bytes on each GPU; `stored`: on the disk, of the tuned weights whole, with adapters in bfloat16, else float32."""

    weights: float  # frozen, in bfloat16
    trained: float  # adapters or all weights, with gradients and Adam's state
    gathered: float  # whole again for a pass under FSDP: two blocks, embeddings and head, in bfloat16
    activations: float  # of `micro_batch_tokens`
    logits: float  # of the replies' tokens
    stored: float

    @property
    def all(self) -> float:
        return sum(self) - self.stored


def tuning_memory(path: str, config: TuningConfig, gpus: int) -> Memory:
    """Of a decoder with gated MLPs (directory or hub name), sharded by FSDP; what CPUs measure of it is in
    `benchmarks/results/fsdp_memory.json`. Fragments and communication come on top. OSError or ValueError where its
    configuration cannot be read."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), dtype=torch.bfloat16)
        blocks = [sum(p.numel() for p in block.parameters()) for block in model.get_decoder().layers]
        whole = sum(p.numel() for p in model.parameters())
        if config.lora is not None:
            model = with_adapters(model, config.lora)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    shape, tokens = model.config.get_text_config(), config.micro_batch_tokens
    block = 2 * tokens * (12 * shape.hidden_size + 4 * shape.intermediate_size)
    kept = (
        2 * tokens * shape.hidden_size * len(blocks) + block if config.gradient_checkpointing else block * len(blocks)
    )
    frozen = whole if config.lora is not None else 0
    outside = whole - sum(blocks)
    return Memory(
        weights=2 * frozen / gpus,
        trained=TRAINED * trained / gpus,
        gathered=2 * (2 * max(blocks) + outside) if gpus > 1 else 0 if config.lora else 2 * whole,
        activations=kept,
        logits=14 * tokens / REPLIES * shape.vocab_size,  # bfloat16, float32, and their gradients
        stored=(2 if config.lora is not None else 4) * whole,
    )
