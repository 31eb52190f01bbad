"""Pairs learned per second by `train_policy`, beside TRL's DPOTrainer: same model, same pairs, same order.

    python benchmarks/dpo.py --out benchmarks/results/dpo.json        (the shipped pocket model, on a CPU)
    python benchmarks/dpo.py --model 0.5b --device cuda --out benchmarks/results/dpo-gpu.json

`--precision bfloat16` trains both in mixed precision, where losses agree less closely, and no limit is checked.
`--model 0.5b` has the published numbers of Qwen2.5-0.5B and random weights; nothing is fetched.
Neither runs a reference model: both are given the likelihoods the replies were drawn with (TRL, which has no way in for
them, by overriding its precomputation) and both take token ids as they are (TRL by overriding its tokenization). Both
do the same Adam steps in float32, so their losses must agree at every step, and so must all weights' gradients at the
first, before clipping; where they do not, the command fails. Tokens are the pairs' own, each pair's
prompt twice, whatever is shared or padded. TRL's clock leaves out its loading of batches; ours leaves out nothing.
Seconds are the processor's, which other programs on the machine hardly change; the wall's stand beside them.
"""

import argparse
import copy
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import datasets
import torch
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM, TrainerCallback

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.config import DPOConfig
from bestofq.learning.objectives import preferences
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.learning.tuning import CLIP_NORM, train_policy
from bestofq.learning.tuning_batches import PairBatches
from bestofq_sites.shipped import POCKET

QWEN_HALF_BILLION = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


@cache
def original(name: str) -> Any:
    """The model that all trainings begin with, on the CPU."""
    if name == "pocket":
        return AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="sdpa")
    torch.manual_seed(0)
    return Qwen2ForCausalLM._from_config(Qwen2Config(**QWEN_HALF_BILLION), attn_implementation="sdpa")


def load(name: str) -> Any:
    return copy.deepcopy(original(name))


def drawn_pairs(
    model: Any, *, nodes: int, per_node: int, prompt: int, answer: int, spread: float, seed: int
) -> list[PreferencePair]:
    """`per_node` pairs of one chosen turn and as many rejected ones; answers of (1 ± spread) · `answer` tokens."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for node in range(nodes):
        longer = torch.rand(per_node + 1, generator=generator) * 2 - 1
        lengths = [prompt, *(max(1, round(answer * (1 + spread * float(x)))) for x in longer)]
        ids, *replies = (
            tuple(torch.randint(3, model.config.vocab_size, (n,), generator=generator).tolist()) for n in lengths
        )
        with torch.no_grad():
            log_probs = reply_log_probs(model, [Branches(ids, replies)], share=False).tolist()
        turns = [Turn(prompt_ids=ids, reply_ids=r, log_prob=p) for r, p in zip(replies, log_probs, strict=True)]
        pairs += [
            PreferencePair(chosen=(turns[0],), rejected=(turn,), margin=1.0, task="random", node=node)
            for turn in turns[1:]
        ]
    return pairs


class Gradients:
    """Of each weight, as the first step has summed them up, before they are clipped."""

    def __init__(self, model: Any) -> None:
        self.found: dict[str, torch.Tensor] = {}
        self._hooks = [
            weight.register_post_accumulate_grad_hook(partial(self._keep, name))
            for name, weight in model.named_parameters()
        ]

    def _keep(self, name: str, weight: torch.Tensor) -> None:
        assert weight.grad is not None
        self.found[name] = weight.grad.clone()

    def close(self) -> None:
        """The first step is over."""
        while self._hooks:
            self._hooks.pop().remove()

    def spread_labels(self, other: "Gradients") -> float:
        """|self - other| / |other|, over all weights together."""
        assert self.found.keys() == other.found.keys()
        difference = torch.cat([(self.found[name] - value).flatten() for name, value in other.found.items()])
        return float(difference.norm() / torch.cat([value.flatten() for value in other.found.values()]).norm())


Seconds = tuple[float, float]  # of the processor, all threads; on the wall


def now() -> Seconds:
    return time.process_time(), time.perf_counter()


def between(before: Seconds, after: Seconds) -> Seconds:
    return after[0] - before[0], after[1] - before[1]


@dataclass
class Trained:
    """What came of all steps; seconds of all but the first."""

    losses: list[float]
    gradients: Gradients
    seconds: list[Seconds]


def ours(model: Any, pairs: Sequence[PreferencePair], config: DPOConfig) -> Trained:
    gradients = Gradients(model)
    losses: list[float] = []
    moments: list[Seconds] = []

    def report(progress: Any) -> None:
        gradients.close()
        losses.append(progress.means["loss"])
        moments.append(now())

    with TemporaryDirectory() as folder:
        train_policy(model, pairs, config, report, out=Path(folder))
    return Trained(losses, gradients, [between(*some) for some in pairwise(moments)])


class Trainer(trl.DPOTrainer):  # type: ignore[misc]
    """TRL's, with tokens and reference likelihoods as they come."""

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    def _precompute_ref_logps(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset


class Clock(TrainerCallback):  # type: ignore[misc]
    def __init__(self, gradients: Gradients) -> None:
        self.seconds: list[Seconds] = []
        self.losses: list[float] = []
        self.gradients = gradients

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.begun = now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.gradients.close()
        self.seconds.append(between(self.begun, now()))

    def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))


def theirs(model: Any, pairs: Sequence[PreferencePair], config: DPOConfig) -> Trained:
    rows = [
        {
            "prompt_ids": pair.chosen[0].prompt_ids,
            "chosen_ids": pair.chosen[0].reply_ids,
            "rejected_ids": pair.rejected[0].reply_ids,
            "ref_chosen_logps": pair.chosen[0].log_prob,
            "ref_rejected_logps": pair.rejected[0].log_prob,
        }
        for pair in pairs
    ]
    clock = Clock(Gradients(model))
    with TemporaryDirectory() as folder:
        arguments = trl.DPOConfig(
            output_dir=folder,
            beta=config.beta,
            learning_rate=config.lr,
            lr_scheduler_type="linear",
            num_train_epochs=1,
            per_device_train_batch_size=config.batch_size,
            max_length=None,
            precompute_ref_log_probs=True,
            gradient_checkpointing=False,
            bf16=config.precision == "bfloat16",
            use_cpu=config.device == "cpu",
            max_grad_norm=CLIP_NORM,
            weight_decay=0.0,
            train_sampling_strategy="sequential",
            save_strategy="no",
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(POCKET),
            callbacks=[clock],
        )
        trainer.train()
    return Trained(clock.losses, clock.gradients, clock.seconds[1:])


class UnwarmedDPO(DPOConfig):
    warmup_share: ClassVar[float] = 0.0


def compare(
    setting: dict[str, Any],
    *,
    model: str,
    precision: Literal["float32", "bfloat16"],
    steps: int,
    rounds: int,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """Tokens per second of both, the median over rounds; their ratio within a round, likewise."""
    nodes = max(1, setting["batch_pairs"] // setting["per_node"]) * steps
    shape = {name: setting[name] for name in ("per_node", "prompt", "answer", "spread")}
    pairs = drawn_pairs(load(model).eval().to(device), nodes=nodes, seed=seed, **shape)
    config = UnwarmedDPO(
        lr=1e-6,  # Adam's first steps go by signs: larger ones spread the rounding of gradients near 0
        batch_size=setting["batch_pairs"],
        precision=precision,
        device=device,
        checkpoint_every=steps,
        seed=seed,
    )
    order = PairBatches(pairs, preferences(config.beta).turns, config, share=True)
    in_order = [pair for step in order.steps for unit in step for pair in unit]
    turns = [
        turn for step in order.steps[1:] for unit in step for pair in unit for turn in (*pair.chosen, *pair.rejected)
    ]
    timed = sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in turns)  # the first step warms up
    rates: dict[str, list[tuple[float, ...]]] = {"train_on_preferences": [], "TRL DPOTrainer": []}
    apart = gradients_apart = 0.0
    for _ in range(rounds):
        we, they = ours(load(model), pairs, config), theirs(load(model), in_order, config)
        apart = max(apart, *(abs(a - b) for a, b in zip(we.losses, they.losses, strict=True)))
        gradients_apart = max(gradients_apart, we.gradients.spread_labels(they.gradients))
        for name, trained in (("train_on_preferences", we), ("TRL DPOTrainer", they)):
            rates[name].append(tuple(timed / sum(clock) for clock in zip(*trained.seconds, strict=True)))
    ratios = [(a[0] / b[0], a[1] / b[1]) for a, b in zip(*rates.values(), strict=True)]
    taken = [on_processor if device == "cpu" else on_the_wall for on_processor, on_the_wall in ratios]
    return setting | {
        "tokens_per_s": {
            name: round(statistics.median(rate[device != "cpu"] for rate in values)) for name, values in rates.items()
        },
        "times_trl": round(statistics.median(taken), 2),
        "times_trl_range": [round(min(taken), 2), round(max(taken), 2)],
        "times_trl_on_the_wall": round(statistics.median(ratio for _, ratio in ratios), 2),
        "loss_apart_at_most": float(f"{apart:.1e}"),
        "first_gradients_apart_at_most": float(f"{gradients_apart:.1e}"),
        "last_loss": round(we.losses[-1], 4),
    }


LIMITS = {"loss_apart_at_most": 1e-4, "first_gradients_apart_at_most": 1e-3}
SETTINGS = {
    "2:1": {"prompt": 128, "answer": 64, "per_node": 1, "spread": 0.5},
    "8:1": {"prompt": 512, "answer": 64, "per_node": 1, "spread": 0.5},
    "8:1, answers of one length": {"prompt": 512, "answer": 64, "per_node": 1, "spread": 0.0},
    "16:1": {"prompt": 1024, "answer": 64, "per_node": 1, "spread": 0.5},
    "8:1, 4 pairs a node": {"prompt": 512, "answer": 64, "per_node": 4, "spread": 0.5},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["pocket", "0.5b"], default="pocket")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--steps", type=int, default=4, help="per contender and round, the first untimed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-pairs", type=int, default=4, help="a step, in one forward pass for TRL")
    parser.add_argument("--only", choices=SETTINGS, help="one setting")
    parser.add_argument("--shorter", type=int, default=1, help="prompts and answers so many times shorter, for a trial")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda, where the wall's clock counts")
    parser.add_argument("--out", type=Path, help="JSON file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = {}
    for name, setting in SETTINGS.items():
        if given.only in (None, name):
            row = compare(
                setting
                | {name: max(1, setting[name] // given.shorter) for name in ("prompt", "answer")}
                | {"batch_pairs": given.batch_pairs},
                model=given.model,
                precision=given.precision,
                steps=given.steps,
                rounds=given.rounds,
                seed=given.seed,
                device=given.device,
            )
            results[name] = row
            apart = " ".join(f"{key} {row[key]:.1e}" for key in LIMITS)
            sys.stdout.write(f"{name:28} x {row['times_trl']:.2f}  {row['tokens_per_s']} {apart}\n")
            sys.stdout.flush()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    report = {
        "command": ["python", *sys.argv],
        "seed": given.seed,
        "commit": commit.stdout.strip() or None,
        "machine": {
            "processor": torch.cuda.get_device_name()
            if given.device != "cpu"
            else torch.cpu.get_capabilities().get("cpu_name", platform.machine()),
            "cores": os.cpu_count(),
            "threads": given.threads,
            "load_average": os.getloadavg()[0],
            "torch": torch.__version__,
            "trl": trl.__version__,
        },
        "results": results,
    }
    if given.out:
        given.out.write_text(json.dumps(report, indent=2) + "\n")
    unequal = [name for name, row in results.items() if any(row[key] > most for key, most in LIMITS.items())]
    if unequal and given.precision == "float32":
        sys.exit(f"not the same training as TRL's within {LIMITS}: {', '.join(unequal)}")


if __name__ == "__main__":
    main()
