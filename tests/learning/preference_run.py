"""A tiny model and pairs for it, and a training run of them that is killed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.config import DPOConfig
from bestofq.learning.objectives import PairMeans
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.learning.tuning import TuningProgress, train_on_preferences

CONFIG = DPOConfig(
    lr=3e-3,
    batch_size=4,
    micro_batch_tokens=64,
    epochs=2,
    checkpoint_every=2,
    precision="float32",
    device="cpu",
)


def tiny_model() -> Any:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=32, max_position_embeddings=64, tie_word_embeddings=True, **shape))


def drawn_turns(nodes: int, replies: int, *, seed: int = 1) -> list[list[Turn]]:
    """Turns of `nodes` prompts, with the likelihoods that `tiny_model` gives them."""
    generator = torch.Generator().manual_seed(seed)
    model, found = tiny_model(), []
    for _ in range(nodes):
        lengths = torch.randint(2, 7, (replies + 1,), generator=generator).tolist()
        prompt, *some = (tuple(torch.randint(2, 32, (n,), generator=generator).tolist()) for n in lengths)
        with torch.no_grad():
            log_probs = reply_log_probs(model, [Branches(prompt, some)], share=False).tolist()
        turns = zip(some, log_probs, strict=True)
        found.append([Turn(prompt_ids=prompt, reply_ids=reply, log_prob=p) for reply, p in turns])
    return found


def step_pairs(nodes: int = 6) -> list[PreferencePair]:
    """Two pairs a node, which share the better turn."""
    return [
        PreferencePair(chosen=(best,), rejected=(worse,), margin=0.5, task=str(number), node=number)
        for number, (best, *rest) in enumerate(drawn_turns(nodes, 3))
        for worse in rest
    ]


def trajectory_pairs(count: int = 3) -> list[PreferencePair]:
    """A success of three turns beside a failure of two, from the same first prompt."""
    found = []
    for number in range(count):
        first, *later = drawn_turns(4, 2, seed=10 + number)
        won, lost = (first[0], later[0][0], later[1][0]), (first[1], later[2][0])
        found.append(PreferencePair(chosen=won, rejected=lost, margin=1.0, task=str(number)))
    return found


def train_and_die(out: Path, die_after: int) -> None:
    def report(progress: TuningProgress[PairMeans]) -> None:
        sys.stdout.write(f"{progress.step} {progress.means.loss}\n")
        sys.stdout.flush()
        if progress.step == die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    train_on_preferences(tiny_model(), step_pairs(), CONFIG, report, out=out)
