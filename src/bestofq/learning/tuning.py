"""Tuning a language model on what was searched: RFT on successes (Agent Q, 3.2.1), DPO on preferences (3.2.2, 5.2).

One trainer for all losses, on accelerate: alone on a CPU or a GPU, or under `accelerate launch` with DDP or FSDP2.
Tests try several processes on CPUs only: DPO with both, RFT with FSDP2.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bestofq.core.errors import CheckpointError, ConfigError, DataError
from bestofq.core.loading import extra
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.config import DPOConfig, TuningConfig
from bestofq.learning.distributed import choose_device, fast_bfloat16
from bestofq.learning.objectives import Objective, preferences, slopes_of, successes
from bestofq.learning.resuming import claim, clear_steps, load_step, save_step, write_folder
from bestofq.learning.shared_prefix import can_share, reply_log_probs, shared_prefix
from bestofq.learning.tuning_batches import PairBatch, PairBatches

CLIP_NORM = 1.0  # of all gradients together, as in TRL


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """One step, of all processes, before its update."""

    step: int
    steps: int
    means: Mapping[str, float]  # of the loss and of what else the objective names
    gradient_norm: float  # before clipping
    lr: float


Report = Callable[[TuningProgress], None]


def train_policy(
    model: Any, items: Sequence[PreferencePair] | Sequence[Turn], config: TuningConfig, report: Report, *, out: Path
) -> Path:
    """Train `model` (a causal language model of transformers) in place and save it; returns the folder `out/model`.

    Args:
        items: with a `DPOConfig` pairs of turns (Eq. 5) or of trajectories (Eq. 6); else successful turns, for RFT
            (Eq. 4, -E[Σ_t log π_θ(a_t|h_t)]).

    With adapters, they lie in `out/adapter` and are merged into `out/model` (not under FSDP: there only the adapter is
    saved and returned). The same call again continues from the last checkpoint, bit for bit on a CPU, and does nothing
    when it was finished. Raises DataError without items, ConfigError for weights that cannot be trained,
    CheckpointError where `out` holds another run, or when training diverges.
    """
    objective: Objective[Any] = preferences(config.beta) if isinstance(config, DPOConfig) else successes()
    if not items:
        raise DataError(f"There are 0 {objective.items} to train on: search more tasks, or more rollouts a task.")
    accelerator = _accelerator(config)
    claim(out, items, config.model_dump_json(exclude={"checkpoint_every", "device"}))
    done = out / ("adapter" if config.lora and _fsdp(accelerator) else "model")
    if done.exists():
        return done
    torch.manual_seed(config.seed)
    model = _prepare_model(model, config)
    agreed = [accelerator.is_main_process and can_share(model)]  # under FSDP only that process may hold the weights
    extra("accelerate.utils").broadcast_object_list(agreed)
    [share] = agreed
    rank, size = accelerator.process_index, accelerator.num_processes
    batches = PairBatches(items, objective.turns, config, share=share, rank=rank, size=size)
    trained = (weight for weight in model.parameters() if weight.requires_grad)  # a list would keep them whole
    adam = torch.optim.AdamW(trained, lr=config.lr, weight_decay=0.0)
    with shared_prefix(model) if share else nullcontext():
        policy, adam = accelerator.prepare(model, adam)
        begin = load_step(out, policy, adam.optimizer, accelerator)
        policy.train()
        for step in range(begin, len(batches)):
            lr = config.lr * schedule(step, len(batches), config.warmup_share)
            for parameters in adam.param_groups:
                parameters["lr"] = lr
            means = _accumulate(accelerator, policy, batches[step], objective, share=share)
            norm = float(accelerator.clip_grad_norm_(policy.parameters(), CLIP_NORM))
            if not all(map(math.isfinite, (norm, *means))):
                raise CheckpointError(f"Training diverged at step {step + 1}: lower lr (now {config.lr:g}).")
            adam.step()
            adam.zero_grad()
            if (step + 1) % config.checkpoint_every == 0 and step + 1 < len(batches):
                save_step(out, policy, adam.optimizer, accelerator, step + 1)
            if accelerator.is_main_process:
                named = dict(zip(objective.means, means, strict=True))
                report(TuningProgress(step + 1, len(batches), named, norm, lr))
    _save(accelerator, policy, out, lora=config.lora is not None)
    if accelerator.is_main_process:
        clear_steps(out)
    return done


def schedule(step: int, steps: int, warmup_share: float) -> float:
    """Factor of the rate at `step` (from 0): a straight rise over the first share, then a straight fall towards 0."""
    warmup = round(steps * warmup_share)
    return (step + 1) / warmup if step < warmup else (steps - step) / max(1, steps - warmup)


def _accumulate(
    accelerator: Any, policy: Any, batch: PairBatch[Any], objective: Objective[Any], *, share: bool
) -> list[float]:
    """The gradient of the mean loss over the items of all processes; returns the means. The slopes by the
    log-likelihoods suffice; where an item spans several micro-batches, a pass without gradient gives them."""
    device = accelerator.device
    weight = sum(map(objective.weight, batch.items))
    sums = torch.zeros((), device=device)
    left = sum(len(round_.micro_batches) for round_ in batch.rounds)
    for round_ in batch.rounds:
        nodes = [node for some in round_.micro_batches for node in some]
        terms = objective.terms(round_.items, nodes, device)
        once = len(round_.micro_batches) == 1
        if not once:
            with torch.no_grad():
                values = [reply_log_probs(policy, some, share=share, device=device) for some in round_.micro_batches]
            slopes, outcome = slopes_of(terms, torch.cat(values))
        begin = 0
        for some in round_.micro_batches:
            left -= 1
            with accelerator.no_sync(policy) if left and not _fsdp(accelerator) else nullcontext():
                log_probs = reply_log_probs(policy, some, share=share, device=device)  # [R]
                if once:
                    slopes, outcome = slopes_of(terms, log_probs)
                mine = slopes[begin : begin + len(log_probs)]
                begin += len(log_probs)
                accelerator.backward((log_probs * mine).sum() * (accelerator.num_processes / weight))
        sums = sums + outcome  # [M]
    found: list[float] = (accelerator.reduce(sums, "sum") / weight).tolist()
    return found


def _accelerator(config: TuningConfig) -> Any:
    accelerate = extra("accelerate")
    device = choose_device(config.device)
    fast = config.precision == "auto" and fast_bfloat16(device)
    mixed = "bf16" if fast or config.precision == "bfloat16" else "no"
    accelerate.state.AcceleratorState._reset_state()  # a process may train more than once; transformers does so too
    return accelerate.Accelerator(mixed_precision=mixed, cpu=device.type == "cpu")  # else its processes train alone


def _prepare_model(model: Any, config: TuningConfig) -> Any:
    """The model with what it is to learn marked, and without dropout: stored likelihoods know none."""
    if config.lora is not None:
        model = with_adapters(model, config.lora)
    elif model.dtype != torch.float32:
        raise ConfigError(
            f"All weights are to be trained, but they are {model.dtype}: steps of {config.lr:g} would be rounded away. "
            "Load the model in float32, or set `lora`."
        )
    else:
        model.requires_grad_(True)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]:
            setattr(module, name, 0.0)  # OPT, BLOOM and Falcon keep their rates as numbers of their own
    if config.gradient_checkpointing:
        name = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"  # renamed in 5.2x
        getattr(model, f"{name}_checkpointing_enable")({"use_reentrant": False})
    return model


def with_adapters(model: Any, rank: int) -> Any:
    """`model` with adapters drawn by torch's generator and everything else frozen. SetupError without PEFT."""
    peft = extra("peft")
    adapters = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with warnings.catch_warnings():  # PEFT and TRL still say `gradient_checkpointing`, which transformers warns of
        warnings.filterwarnings("ignore", r"`\w*gradient_checkpointing\w*` is deprecated", FutureWarning)
        return peft.get_peft_model(model, adapters)


def _fsdp(accelerator: Any) -> bool:
    return bool(accelerator.distributed_type == "FSDP")


def _save(accelerator: Any, policy: Any, out: Path, *, lora: bool) -> None:
    weights = accelerator.get_state_dict(policy)
    model = accelerator.unwrap_model(policy, keep_fp32_wrapper=False)
    if accelerator.is_main_process:
        name = "adapter" if lora else "model"
        write_folder(out / name, lambda folder: model.save_pretrained(folder, state_dict=weights))
        if lora and not _fsdp(accelerator):
            write_folder(out / "model", model.merge_and_unload().save_pretrained)
    accelerator.wait_for_everyone()
