"""log π(a|h) of many replies to one prompt, the prompt computed once: Agent Q's pairs share their history.

All prompts and replies of a micro-batch lie in ONE row without padding: [prompt, reply, reply, …, prompt, reply, …].
A reply sees its prompt and itself: its positions continue the prompt's, and attention runs in two calls a prompt,
causal within the prompt, masked for its replies. For the model this is one ordinary forward call, so gradient
checkpointing, DDP and FSDP need nothing special. A key-value cache, the other way to share, needs two calls, which
transformers' checkpointing forbids.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import transformers  # its attention takes a second to import: it is named where it is used
from torch import Tensor
from torch.nn import functional

SHAREABLE = {"full_attention", "sliding_attention"}  # what a layer may be called in a model's configuration


@dataclass(frozen=True)
class Branches:
    """A prompt and replies to it, as tokens; neither is empty."""

    prompt: Sequence[int]
    replies: Sequence[Sequence[int]]

    @property
    def cost(self) -> int:
        return len(self.prompt) + sum(len(reply) - 1 for reply in self.replies)


def reply_log_probs(
    model: Any, nodes: Sequence[Branches], *, share: bool = True, device: torch.device | None = None
) -> Tensor:
    """log π(a|h) [number of replies, node by node] float32, nats: the sum over ALL tokens of each reply (Eq. 1).

    `model` is a causal language model of transformers, bare or wrapped for training. With `share` it must be within
    `shared_prefix(model)`; without, each reply brings its prompt along in a padded row, for models that cannot share.
    `device` is where it computes: its weights' own, unless they are kept elsewhere. ValueError with `share` outside.
    """
    if share and getattr(model, "module", model).config._attn_implementation != NAME:
        raise ValueError("replies share a prompt within `shared_prefix(model)` only: outside they would see each other")
    compute = _pack_branches if share else _pad_rows
    return compute(model, nodes, next(model.parameters()).device if device is None else device)


def can_share(model: Any) -> bool:
    """Whether `model` (not yet wrapped) computes the same with shared prompts, by its configuration and by trying."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if not kinds <= SHAREABLE or getattr(config, "attention_chunk_size", None):
        return False
    tokens = [token % config.vocab_size for token in range(3, 14)]
    nodes = [Branches(tokens[:4], [tokens[4:7], tokens[7:9]]), Branches(tokens[2:5], [tokens[9:], tokens[5:8]])]
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), shared_prefix(model):
            shared = reply_log_probs(model, nodes)
        with torch.no_grad():
            plain = reply_log_probs(model, nodes, share=False)
    except (TypeError, ValueError):  # the model's layers know no other attention than their own
        return False
    finally:
        model.train(training)
    return bool(torch.allclose(shared, plain, rtol=2e-2 if model.dtype != torch.float32 else 1e-4, atol=1e-4))


@contextmanager
def shared_prefix(model: Any) -> Iterator[None]:
    """Within, `model` (not wrapped; under PEFT its adapters may be there) takes rows of shared prompts only."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    before = inner.config._attn_implementation
    transformers.AttentionInterface.register(NAME, _attend)
    inner.set_attn_implementation(NAME)
    try:
        yield
    finally:
        inner.set_attn_implementation(before)


@dataclass(frozen=True)
class _Span:
    """Where a node lies in the row: its prompt from `start` to `middle`, its replies from there to `end`."""

    start: int
    middle: int
    end: int
    depth: Tensor  # [end - start] position of each token within its branch
    branch: Tensor  # [end - start] 0 for the prompt, 1 … for its replies


class _Layout:
    """The nodes of a row, and their masks once made (one per window width). No dataclass: FSDP would copy it."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self.spans = spans
        self.masks: dict[tuple[int, int | None, bool], Tensor] = {}

    def mask(self, index: int, window: int | None, *, replies: bool) -> Tensor:
        """[1, 1, queries, keys] bool: queries are the prompt (keys likewise), or the replies (keys: all the node)."""
        if (index, window, replies) not in self.masks:
            span = self.spans[index]
            prompt = span.middle - span.start
            of, to = (slice(prompt, None), slice(None)) if replies else (slice(prompt), slice(prompt))
            ahead = span.depth[of, None] - span.depth[None, to]  # [Q, K]
            seen = (ahead >= 0) & ((span.branch[None, to] == 0) | (span.branch[None, to] == span.branch[of, None]))
            if window is not None:
                seen &= ahead < window
            self.masks[index, window, replies] = seen[None, None]
        return self.masks[index, window, replies]


NAME = "bestofq_shared_prefix"


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **others: Any
) -> tuple[Tensor, None]:
    """Attention of a row of nodes; query, key, value [1, heads, T, D], returns [1, T, heads, D]."""
    layout: _Layout | None = others.get("layout")
    if layout is None or others.get("softcap") is not None or others.get("s_aux") is not None:
        raise ValueError("attention with shared prompts needs a layout, and knows no soft caps and no sinks")
    window: int | None = others.get("sliding_window")
    dropout, scaling = others.get("dropout", 0.0), others.get("scaling")
    attend = transformers.integrations.sdpa_attention.sdpa_attention_forward
    parts = []
    for index, span in enumerate(layout.spans):
        prompt, replies = slice(span.start, span.middle), slice(span.middle, span.end)
        both = slice(span.start, span.end)
        long = window is not None and span.middle - span.start > window
        for of, to, mask in (
            (prompt, prompt, layout.mask(index, window, replies=False) if long else None),
            (replies, both, layout.mask(index, window, replies=True)),
        ):
            if of.start < of.stop:
                q, k, v = query[:, :, of], key[:, :, to], value[:, :, to]
                parts.append(attend(module, q, k, v, mask, dropout=dropout, scaling=scaling)[0])
    return torch.cat(parts, dim=1), None


def _pack_branches(model: Any, nodes: Sequence[Branches], device: torch.device) -> Tensor:
    tokens: list[int] = []
    predictors: list[int] = []  # where in the row each token of each reply is predicted
    spans = []
    for node in nodes:
        start, prompt = len(tokens), len(node.prompt)
        tokens += node.prompt
        depth, branch = list(range(prompt)), [0] * prompt
        for number, reply in enumerate(node.replies, 1):
            predictors += [start + prompt - 1, *range(len(tokens), len(tokens) + len(reply) - 1)]
            tokens += reply[:-1]
            depth += range(prompt, prompt + len(reply) - 1)
            branch += [number] * (len(reply) - 1)
        places = torch.tensor([depth, branch], device=device)
        spans.append(_Span(start, start + prompt, len(tokens), places[0], places[1]))
    out = model(
        input_ids=torch.tensor([tokens], device=device),  # [1, T]
        position_ids=torch.cat([span.depth for span in spans])[None],  # [1, T]
        logits_to_keep=torch.tensor(predictors, device=device),
        use_cache=False,
        layout=_Layout(spans),
    )
    replies = [reply for node in nodes for reply in node.replies]
    return _sum_log_probs(out.logits[0], replies)  # [L, V], L tokens of all replies


def _pad_rows(model: Any, nodes: Sequence[Branches], device: torch.device) -> Tensor:
    rows = [([*node.prompt, *reply], len(reply)) for node in nodes for reply in node.replies]
    width = max(len(row) for row, _ in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in rows], device=device)  # [B, T]
    seen = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row, _ in rows], device=device)  # [B, T]
    logits = model(input_ids=ids, attention_mask=seen, use_cache=False).logits  # [B, T, V]
    picked = [logits[i, len(row) - reply - 1 : len(row) - 1] for i, (row, reply) in enumerate(rows)]
    return _sum_log_probs(torch.cat(picked), [reply for node in nodes for reply in node.replies])


def _sum_log_probs(logits: Tensor, replies: Sequence[Sequence[int]]) -> Tensor:
    """[number of replies] from the logits [L, V] that predict the replies' tokens, laid end to end."""
    targets = torch.tensor([token for reply in replies for token in reply], device=logits.device)  # [L]
    taken = -functional.cross_entropy(logits.float(), targets, reduction="none")  # [L]
    ends = list(accumulate(len(reply) for reply in replies))
    return torch.stack([taken[end - len(reply) : end].sum() for reply, end in zip(replies, ends, strict=True)])
