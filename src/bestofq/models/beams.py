"""Beam search over a whole reply: planning within one composite action (Agent Q, 4.1, after Rafailov et al. 2023)."""

from typing import Any

from torch import Tensor


def beam_search(
    model: Any, prompts: Tensor, seen: Tensor, *, width: int, limit: int
) -> tuple[list[list[list[int]]], list[list[float]]]:
    """The `width` likeliest replies that a search so wide finds, the likeliest first: [B, W] lists of tokens, their end
    included where there is one, and [B, W] natural logs of their probability, not divided by length.

    `prompts` [B, P] int64 are padded on the left; `seen` [B, P] is 0 where they are.
    """
    found = model.generate(
        input_ids=prompts,
        attention_mask=seen,
        num_beams=width,
        num_return_sequences=width,
        do_sample=False,
        temperature=None,
        length_penalty=0.0,
        max_new_tokens=limit,
        return_dict_in_generate=True,
        output_scores=True,
    )
    ends = model.generation_config.eos_token_id
    stops = set(ends if isinstance(ends, list) else [ends])
    rows = found.sequences[:, prompts.shape[1] :].reshape(len(prompts), width, -1).tolist()
    scores: list[list[float]] = found.sequences_scores.reshape(len(prompts), width).tolist()
    return [[_up_to_end(reply, stops) for reply in row] for row in rows], scores


def _up_to_end(tokens: list[int], stops: set[int]) -> list[int]:
    """Without the padding that follows a reply's end."""
    return next((tokens[: i + 1] for i, token in enumerate(tokens) if token in stops), tokens)
