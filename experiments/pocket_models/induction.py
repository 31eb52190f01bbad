"""Copying, given to a small model before it learns anything else.

To copy what followed a like beginning takes two layers of attention together, an induction head (Elhage et al. 2021,
Olsson et al. 2022): one layer tells each token what stood before it, the next finds the tokens that stood behind the
present one. A model of a few million parameters, taught some ten million tokens, does not find this circuit: it ends
e-mail addresses at chance and gives the right element the wrong mark. So the circuit is laid by hand, in half of the
heads of the first two layers, and drilled on phrases of random tokens, where nothing but copying helps.
"""

from collections.abc import Iterator

import numpy as np
import torch
from pydantic import Field
from transformers import LlamaForCausalLM

from bestofq.core.frozen import FrozenModel
from experiments.pocket_models.sft import SFTConfig, TokenizedExample

SHARP = 5.66  # size of the position biases: the token before gets 70 times the weight of its neighbours
MATCH = 4.0  # size of the matching weights: a like token is found among some hundred
COPIED = 0.4  # size of what is written of the token found
ROPE_THETA = 1e6  # base of the rotary embedding: slow enough planes that far tokens are matched
BEFORE = 0.05  # size of what is written of the token before


class InductionConfig(FrozenModel):
    """Induction heads at the start, and the drill. Its rates are low: at those of the training that follows, the
    heads are lost before they are of use."""

    steps: int = Field(default=0, ge=0, description="of the drill; 0: no heads are laid; with a base: only `share`")
    width: int = Field(default=192, ge=32, description="tokens a row")
    batch_tokens: int = Field(default=6144, description="tokens a step")
    lr_muon: float = 0.004
    lr_adam: float = 0.001
    share: float = Field(default=0.05, ge=0, lt=1, description="of all examples of the training after it")


def lay_heads(model: LlamaForCausalLM) -> None:
    """Half of the heads of layer 0 look at the token before; those of layer 1 find where the token now present was the
    one before, and write what stands there. In place; needs attention biases and at least four heads of even size.
    """
    config = model.config
    heads, size, width = config.num_attention_heads // 2, config.head_dim, config.hidden_size
    first, second = (model.model.layers[layer].self_attn for layer in (0, 1))
    angles = config.rope_parameters["rope_theta"] ** (-torch.arange(size // 2) / (size // 2))
    slow = torch.cat([torch.arange(size // 4, size // 2), torch.arange(3 * size // 4, size)])  # hardly turned
    read, copied = (torch.nn.init.orthogonal_(torch.empty(width, width)) for _ in range(2))
    with torch.no_grad():
        for attention in (first, second):
            for projection in (attention.q_proj, attention.k_proj):
                projection.weight[: heads * size] *= 0.1
        for head in range(heads):
            rows = slice(head * size, (head + 1) * size)
            present, before = read[rows], read[width // 2 :][rows]
            first.k_proj.bias[rows] = SHARP * torch.cat([torch.ones_like(angles), torch.zeros_like(angles)])
            first.q_proj.bias[rows] = SHARP * torch.cat([angles.cos(), -angles.sin()])
            first.v_proj.weight[rows] = present
            first.o_proj.weight[:, rows] = BEFORE * before.T
            second.q_proj.weight[head * size + slow] = MATCH * present[: len(slow)]
            second.k_proj.weight[head * size + slow] = MATCH * before[: len(slow)]
            second.v_proj.weight[rows] = copied[rows]
            second.o_proj.weight[:, rows] = COPIED * copied[rows].T


def drill(config: InductionConfig, vocabulary: int, count: int, seed: int) -> Iterator[TokenizedExample]:
    """`count` rows: phrases of 3 to 8 random tokens, then the same phrases in another order, to be copied from their
    second token on."""
    rng = np.random.default_rng(seed)
    half = (config.width - 1) // 2
    for _ in range(count):
        phrases: list[list[int]] = []
        while (left := half - sum(map(len, phrases))) > 2:
            phrases.append(rng.integers(8, vocabulary, size=min(left, int(rng.integers(3, 9)))).tolist())
        tokens, replies = [1, *(token for phrase in phrases for token in phrase)], []
        for index in rng.permutation(len(phrases)):
            start = len(tokens)
            tokens += phrases[index]
            replies.append((start + 1, len(tokens)))
        yield TokenizedExample(tokens, replies)


def drill_training(config: InductionConfig, training: SFTConfig) -> SFTConfig:
    """How the drill is trained."""
    own = config.model_dump(include={"steps", "batch_tokens", "lr_muon", "lr_adam"})
    own |= {"widths": (config.width,), "warmup_steps": 20, "decay_share": 0.2}
    return training.model_copy(update=own)
