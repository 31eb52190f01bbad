"""Beam search over a whole reply: planning within one composite action (Agent Q, 4.1, after Rafailov et al. 2023).

The beams of a prompt are branches of one row, as the draws of `models/local.py` are. A beam that continues another
inherits whom that one sees, in the mask: no key or value is ever moved.
"""

from heapq import nlargest
from typing import Any

import torch
from torch import Tensor

from bestofq.models.decoding import CACHE

Found = tuple[float, tuple[int, ...]]
"""A reply, its end included where there is one, and the natural log of its probability, not divided by length."""


def beam_search(
    model: Any, prompts: Tensor, seen: Tensor, cache: Any, first: Tensor, ends: Tensor, *, width: int, limit: int
) -> list[list[Found]]:
    """The `width` likeliest replies that a search so wide finds for each prompt, the likeliest first; fewer where there
    are not as many.

    `seen` [B, P] bool is False where a prompt is padded, on the right; `cache` holds the prompts, with room for
    width · limit tokens; `first` [B, V] are the logits of the first token. A search ends when no beam can become
    likelier than `width` replies found.
    """
    lengths, vocabulary = seen.sum(1), first.shape[-1]
    ended: list[list[Found]] = [[] for _ in prompts]
    active = torch.arange(len(prompts), device=first.device)  # rows still searched
    scores = torch.full((len(prompts), width), float("-inf"), device=first.device)
    scores[:, 0] = 0.0  # one beam to begin with
    written = torch.zeros((len(prompts), width, 0), dtype=torch.long, device=first.device)  # [A, W, step]
    own = torch.zeros((len(prompts), width, 0), dtype=torch.bool, device=first.device)  # [A, W, W · step]
    each = torch.eye(width, dtype=torch.bool, device=first.device)
    logits = first[:, None].expand(-1, width, -1)  # [A, W, V]
    for step in range(limit):
        likely = (scores[..., None] + logits.float().log_softmax(-1)).flatten(1)  # [A, W · V]
        best, which = likely.topk(min(2 * width, likely.shape[1]))  # enough though width of them be ends
        parents, tokens = which // vocabulary, which % vocabulary
        ending = torch.isin(tokens, ends)
        for row, place in (ending & best.isfinite())[:, :width].nonzero().tolist():  # others are no beams
            reply = (*written[row, parents[row, place]].tolist(), int(tokens[row, place]))
            ended[int(active[row])].append((float(best[row, place]), reply))
        scores, kept = best.masked_fill(ending, float("-inf")).topk(width)
        parents, tokens = parents.gather(1, kept), tokens.gather(1, kept)
        rows = torch.arange(len(active), device=first.device)[:, None]
        written = torch.cat([written[rows, parents], tokens[..., None]], dim=-1)
        own = torch.cat([own[rows, parents], each.expand(len(active), -1, -1)], dim=-1)
        likeliest = zip(active.tolist(), scores[:, 0].tolist(), strict=True)
        going = torch.tensor([score > _worst(ended[row], width) for row, score in likeliest], device=first.device)
        if step + 1 == limit or not going.any():
            break
        if not going.all():
            cache.batch_select_indices(going.nonzero().squeeze(1))
            active, scores, written, own = active[going], scores[going], written[going], own[going]
        prefix = seen[active, None, None, :].expand(-1, 1, width, -1)  # each beam sees its prompt
        logits = model(
            input_ids=written[..., -1],
            attention_mask=torch.cat([prefix, own[:, None]], dim=-1),  # [A, 1, W, P + W·(step+1)]
            position_ids=(lengths[active, None] + step).expand(-1, width),
            use_cache=True,
            **{CACHE: cache},
        ).logits
    for row, likelihoods, replies in zip(active.tolist(), scores.tolist(), written.tolist(), strict=True):
        cut = zip(likelihoods, map(tuple, replies), strict=True)  # by the limit
        ended[row] += [(score, reply) for score, reply in cut if score > float("-inf")]
    return [nlargest(width, found) for found in ended]


def _worst(ended: list[Found], width: int) -> float:
    """What a beam must be likelier than to be of use."""
    return nlargest(width, ended)[-1][0] if len(ended) >= width else float("-inf")
