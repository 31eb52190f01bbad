"""Supervised training of a small causal language model from nothing.

Muon (Jordan et al. 2024; `torch.optim.Muon`) for the matrices inside the blocks, AdamW for embeddings and norms. The
loss is the mean over ALL tokens plus the mean over the replies, each the mean of its own tokens: the first teaches
copying from page and goal early, the second is what counts, a one-word reply as much as a long one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from bestofq.core.frozen import FrozenModel


class SFTConfig(FrozenModel):
    """One training run."""

    steps: int = Field(default=3600, ge=1)
    batch_tokens: int = Field(default=10_240, description="tokens a step, padding included")
    lr_muon: float = Field(default=0.02, description="peak rate of the matrices")
    lr_adam: float = Field(default=0.003, description="peak rate of embeddings and norms")
    weight_decay: float = 0.01
    warmup_steps: int = 50
    decay_share: float = Field(default=0.5, description="last share of the steps, over which the rates fall to 0")
    clip_norm: float = 1.0
    widths: tuple[int, ...] = Field(default=(144, 192, 256, 320, 400), description="padded lengths, tokens")
    compile: bool = Field(default=True, description="torch.compile: half a minute a width, then a third faster")
    seed: int = 0


@dataclass(frozen=True)
class TokenizedExample:
    tokens: Sequence[int]  # prompts and replies in turn, the end last
    replies: Sequence[tuple[int, int]]  # where each reply begins and ends


class Batch(NamedTuple):
    tokens: Tensor  # [B, T] int64, padded on the right with 0
    weights: Tensor  # [2, B, T-1] float32: all tokens, each reply's mean; of the prediction of tokens[:, 1:]


class Progress(NamedTuple):
    """Loss in nats a token, over the steps since the last report."""

    step: int
    loss_all: float
    loss_reply: float
    tokens: int


def train_language_model(
    model: nn.Module,
    examples: Sequence[TokenizedExample],
    config: SFTConfig,
    report: Callable[[Progress], None],
    *,
    report_every: int = 20,
) -> None:
    """Train in place, in bf16 autocast. Examples longer than the largest width are left out."""
    torch.manual_seed(config.seed)
    device = next(model.parameters()).device
    optimizers = _optimizers(model, config)
    losses = torch.compile(_losses, dynamic=False) if config.compile else _losses
    batches = _batches(examples, config)
    sums, tokens = np.zeros(2), 0
    for step in range(1, config.steps + 1):
        batch = next(batches)
        loss_all, loss_reply = losses(model, batch.tokens.to(device), batch.weights.to(device))
        (loss_all + loss_reply).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * _schedule(step, config)
            optimizer.step()
            optimizer.zero_grad()
        sums += (loss_all.item(), loss_reply.item())
        tokens += batch.tokens.numel()
        if step % report_every == 0 or step == config.steps:
            done = (step - 1) % report_every + 1
            report(Progress(step, sums[0] / done, sums[1] / done, tokens))
            sums[:] = 0


def _losses(model: Any, tokens: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
        hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state  # [B, T-1, D]
        logits = model.lm_head(hidden)  # [B, T-1, V]
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
    whole = weights.flatten(1).sum(1).clamp(min=1)  # tokens, replies: there may be none of the latter
    loss_all, loss_reply = (weights.flatten(1) * loss).sum(1) / whole
    return loss_all, loss_reply


def _optimizers(model: nn.Module, config: SFTConfig) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers" in name]
    rest = [p for name, p in model.named_parameters() if not (p.ndim == 2 and "layers" in name)]
    muon = {"params": matrices, "peak": config.lr_muon}
    adam = {"params": rest, "peak": config.lr_adam}
    return [
        torch.optim.Muon([muon], lr=config.lr_muon, weight_decay=config.weight_decay),
        torch.optim.AdamW([adam], lr=config.lr_adam, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _schedule(step: int, config: SFTConfig) -> float:
    """Warm-up, plateau, then a straight fall to zero."""
    warm = min(1.0, step / config.warmup_steps)
    left = (config.steps - step + 1) / max(1, math.ceil(config.steps * config.decay_share))
    return min(warm, left, 1.0)


def _batches(examples: Sequence[TokenizedExample], config: SFTConfig) -> Iterator[Batch]:
    """Batches of one width each, without end; a width's turn comes as often as its examples fill a batch."""
    rng = np.random.default_rng(config.seed)
    waiting: dict[int, list[TokenizedExample]] = {width: [] for width in config.widths}
    while True:
        for index in rng.permutation(len(examples)):
            example = examples[index]
            width = next((w for w in config.widths if len(example.tokens) <= w), None)
            if width is None:
                continue
            waiting[width].append(example)
            if len(waiting[width]) == config.batch_tokens // width:
                yield _collate(waiting.pop(width), width)
                waiting[width] = []


def _collate(rows: Sequence[TokenizedExample], width: int) -> Batch:
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    weights = np.zeros((2, len(rows), width - 1), dtype=np.float32)
    for row, example in enumerate(rows):
        length = len(example.tokens)
        tokens[row, :length] = example.tokens
        weights[0, row, : length - 1] = 1
        for start, end in example.replies:
            weights[1, row, start - 1 : end - 1] = 1 / (end - start)
    return Batch(torch.from_numpy(tokens), torch.from_numpy(weights))
