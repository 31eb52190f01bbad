"""Training a language model on preferences: step-level DPO (Agent Q, 5.2, Algorithm 1) on one process or many.

On accelerate: alone on a CPU or a GPU, or under `accelerate launch` with DDP or FSDP2 (tried on CPUs alone so far).
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field

from bestofq.core.errors import CheckpointError, ConfigError, DataError
from bestofq.core.extras import extra
from bestofq.core.noun import Noun
from bestofq.core.preferences import PreferencePair
from bestofq.learning.adapters import LoRAConfig, with_adapters
from bestofq.learning.distributed import Group, choose_device, fast_bfloat16
from bestofq.learning.preference_batches import Batch, Batches, Terms, own_tokens
from bestofq.learning.resuming import Resumable, claim, fingerprint, keep
from bestofq.learning.shared_prefix import can_share, reply_log_probs, shared_prefix


class DPOConfig(Noun):
    """One training run. Agent Q gives none of these numbers (3.2.2, 5.2 and Algorithm 1 name β only): they are those
    of Rafailov et al. 2023 (appendix B) or TRL where marked, else ours. The optimizer is AdamW as in TRL."""

    beta: float = Field(default=0.1, gt=0, description="β of Eqs. 3, 5, 6: how dear it is to leave π_ref; Rafailov B")
    lr: float = Field(default=1e-6, gt=0, description="peak rate, Rafailov B; adapters want some ten times that")
    epochs: int = Field(default=1, ge=1)
    batch_pairs: int = Field(default=64, ge=1, description="pairs a step, of all processes, at least; Rafailov B")
    micro_batch_tokens: int = Field(default=8192, ge=1, description="tokens a forward pass, each shared prompt once")
    warmup_share: float = Field(default=0.1, ge=0, le=1, description="first share of the steps; then straight to 0")
    weight_decay: float = Field(default=0.0, ge=0, description="TRL")
    clip_norm: float = Field(default=1.0, gt=0, description="of all gradients together; TRL")
    lora: LoRAConfig | None = Field(default=None, description="adapters; None trains all weights")
    share_prompts: bool = Field(default=True, description="compute a prompt once for all its replies where possible")
    gradient_checkpointing: bool = Field(default=False, description="less memory, a third more time")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of the matrix products; auto: bfloat16 where the hardware multiplies it"
    )
    device: str = Field(default="auto", description="auto (a GPU where there is one) or cpu")
    checkpoint_every: int = Field(default=50, ge=1, description="steps")
    seed: int = 0


class Means(NamedTuple):
    """Over the pairs of a step."""

    loss: float  # Eq. 5 or 6, nats
    accuracy: float  # share of pairs whose chosen member has the higher implicit reward
    margin: float  # implicit reward of the chosen member over the rejected one's
    chosen_reward: float  # β·log(π_θ / π_ref); far from 0 at step 1, the pairs are of another model
    rejected_reward: float


class PreferenceProgress(NamedTuple):
    """One step, of all processes, before its update."""

    step: int
    steps: int
    pairs: Means
    gradient_norm: float  # before clipping
    lr: float
    tokens: int  # the pairs' own prompts and replies, since step 1


def train_on_preferences(
    model: Any,
    pairs: Sequence[PreferencePair],
    config: DPOConfig,
    report: Callable[[PreferenceProgress], None],
    *,
    out: Path,
) -> Path:
    """Train `model` (a causal language model of transformers) in place and save it; returns the folder `out/model`.

    Pairs of single turns at one node are Eq. 5, pairs of trajectories Eq. 6; both may be mixed. With adapters, they lie
    in `out/adapter` and are merged into `out/model` (not under FSDP: there only the adapter is saved and returned).
    The same call again goes on from the last checkpoint, bit for bit on a CPU, and does nothing when it was finished.
    Raises DataError without pairs, ConfigError for weights that cannot be trained, CheckpointError where `out` holds
    another run, or when training diverges.
    """
    if not pairs:
        raise DataError("There are 0 preference pairs to train on; search more tasks, or lower the value threshold.")
    accelerator = _accelerator(config)
    claim(out, fingerprint(pairs, config.model_dump_json(exclude={"checkpoint_every", "device"})))
    run = Resumable(out)
    done = out / ("adapter" if config.lora and _fsdp(accelerator) else "model")
    if done.exists():
        return done
    torch.manual_seed(config.seed)
    model = _prepared(model, config)
    group = Group(accelerator.process_index, accelerator.num_processes)
    share = config.share_prompts and _agreed(accelerator, lambda: can_share(model))
    batches = Batches(
        pairs,
        batch_pairs=config.batch_pairs,
        micro_batch_tokens=config.micro_batch_tokens,
        epochs=config.epochs,
        seed=config.seed,
        share=share,
        group=group,
    )
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.AdamW(trained, lr=config.lr, weight_decay=config.weight_decay)
    with shared_prefix(model) if share else nullcontext():
        policy, adam = accelerator.prepare(model, adam)
        begin = run.load(policy, adam.optimizer, accelerator)
        policy.train()
        tokens = sum(own_tokens(unit) for step in batches.steps[:begin] for unit in step)
        for step in range(begin, len(batches)):
            lr = config.lr * schedule(step, len(batches), config.warmup_share)
            for parameters in adam.param_groups:
                parameters["lr"] = lr
            means = _accumulate(accelerator, policy, batches[step], config, share=share)
            norm = float(accelerator.clip_grad_norm_(policy.parameters(), config.clip_norm))
            if not all(map(math.isfinite, (norm, *means))):
                raise CheckpointError(f"Training diverged at step {step + 1}: lower lr (now {config.lr:g}).")
            adam.step()
            adam.zero_grad()
            tokens += sum(map(own_tokens, batches.steps[step]))
            if (step + 1) % config.checkpoint_every == 0 and step + 1 < len(batches):
                run.save(policy, adam.optimizer, accelerator, step + 1)
            if accelerator.is_main_process:
                report(PreferenceProgress(step + 1, len(batches), means, norm, lr, tokens))
    _save(accelerator, policy, out, lora=config.lora is not None)
    run.clear(accelerator)
    return done


def schedule(step: int, steps: int, warmup_share: float) -> float:
    """Factor of the rate at `step` (from 0): a straight rise over the first share, then a straight fall towards 0."""
    warmup = round(steps * warmup_share)
    return (step + 1) / warmup if step < warmup else (steps - step) / max(1, steps - warmup)


def _accumulate(accelerator: Any, policy: Any, batch: Batch, config: DPOConfig, *, share: bool) -> Means:
    """The gradient of the mean loss over the pairs of all processes; returns loss, accuracy, margin and both rewards.

    The loss is a function of a few log-likelihoods, so its slopes by them are all that the passes backward need. Where
    a pair spans several micro-batches the slopes come from a pass forward without gradient, the same numbers.
    """
    device = accelerator.device
    sums = torch.zeros(5, device=device)
    left = sum(len(round_.micro_batches) for round_ in batch.rounds)
    for round_ in batch.rounds:
        nodes = [node for some in round_.micro_batches for node in some]
        terms = Terms(round_.pairs, nodes, device)
        once = len(round_.micro_batches) == 1
        if not once:
            with torch.no_grad():
                values = [reply_log_probs(policy, some, share=share, device=device) for some in round_.micro_batches]
            slopes, outcome = terms.slopes(torch.cat(values), beta=config.beta)
        begin = 0
        for some in round_.micro_batches:
            left -= 1
            with accelerator.no_sync(policy) if left and not _fsdp(accelerator) else nullcontext():
                log_probs = reply_log_probs(policy, some, share=share, device=device)  # [R]
                if once:
                    slopes, outcome = terms.slopes(log_probs, beta=config.beta)
                mine = slopes[begin : begin + len(log_probs)]
                begin += len(log_probs)
                accelerator.backward((log_probs * mine).sum() * (accelerator.num_processes / batch.pairs))
        margins = outcome.chosen - outcome.rejected
        sums += torch.stack(
            [outcome.loss.sum(), (margins > 0).sum(), margins.sum(), outcome.chosen.sum(), outcome.rejected.sum()]
        )
    return Means(*(accelerator.reduce(sums, "sum") / batch.pairs).tolist())


def _accelerator(config: DPOConfig) -> Any:
    accelerate = extra("accelerate")
    device = choose_device(config.device)
    fast = config.precision == "auto" and fast_bfloat16(device)
    mixed = "bf16" if fast or config.precision == "bfloat16" else "no"
    accelerate.state.AcceleratorState._reset_state()  # a process may train more than once; transformers does so too
    return accelerate.Accelerator(mixed_precision=mixed, cpu=device.type == "cpu")  # else its processes train alone


def _prepared(model: Any, config: DPOConfig) -> Any:
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
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    if config.gradient_checkpointing:
        name = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"  # renamed in 5.2x
        getattr(model, f"{name}_checkpointing_enable")({"use_reentrant": False})
    return model


def _agreed(accelerator: Any, ask: Callable[[], bool]) -> bool:
    """What the main process finds, for all: under FSDP only it may hold the weights."""
    answer = [ask() if accelerator.is_main_process else False]
    extra("accelerate.utils").broadcast_object_list(answer)
    return answer[0]


def _fsdp(accelerator: Any) -> bool:
    return bool(accelerator.distributed_type == "FSDP")


def _save(accelerator: Any, policy: Any, out: Path, *, lora: bool) -> None:
    weights = accelerator.get_state_dict(policy)
    model = accelerator.unwrap_model(policy, keep_fp32_wrapper=False)
    if accelerator.is_main_process:
        if lora:
            keep(out / "adapter", lambda folder: model.save_pretrained(folder, state_dict=weights))
            if not _fsdp(accelerator):
                merged = model.merge_and_unload()
                keep(out / "model", merged.save_pretrained)
        else:
            keep(out / "model", lambda folder: model.save_pretrained(folder, state_dict=weights))
    accelerator.wait_for_everyone()
