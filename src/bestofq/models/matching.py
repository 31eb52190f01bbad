"""How the tokens of a text match those of a goal: late interaction, as in ColBERT (Khattab and Zaharia 2020), in a few
numbers. They stand beside the mean over tokens, in which no single word can be found again. Not in the paper.
"""

import torch
from torch import Tensor

MATCHES = 8
SAME = 0.999
"""Cosine from which two tokens are the same."""


def matches(text: Tensor, goal: Tensor) -> Tensor:
    """[MATCHES], from the frozen model's input embeddings of the tokens of a text [T, D] and of its goal [G, D]. Of
    each of the text's tokens, the largest cosine with a token of the goal: mean, least, share of the same, whether all
    are the same, number of the same / 10. Of each of the goal's tokens: mean, share of the same. Then T / 10."""
    cosine = torch.nn.functional.normalize(text.float(), dim=-1) @ torch.nn.functional.normalize(goal.float(), dim=-1).T
    ours, theirs = cosine.amax(1), cosine.amax(0)
    found, covered = (ours > SAME).float(), (theirs > SAME).float()
    length = found.new_tensor(len(text) / 10)
    own = (ours.mean(), ours.amin(), found.mean(), found.amin(), found.sum() / 10)
    return torch.stack([*own, theirs.mean(), covered.mean(), length])
