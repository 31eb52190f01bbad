"""Reinforced fine-tuning (Agent Q, 3.2.1, Eq. 4): supervised training on the turns of successful trajectories.

On TRL's SFTTrainer. It takes rows that are tokenized already (`input_ids` with `labels`, -100 where nothing is learned;
TRL 1.16) and leaves them as they are, so that the composite action is learned from the very tokens that were drawn.
Rows of text (`prompt`, `completion`) it would tokenize again, cut up otherwise at the boundary.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers  # its trainer takes a second to import: it is named where it is used
from pydantic import Field

from bestofq.core.errors import ConfigError, DataError
from bestofq.core.extras import extra
from bestofq.core.noun import Noun
from bestofq.core.preferences import Turn
from bestofq.learning.adapters import LoRAConfig, renames_ignored, with_adapters
from bestofq.learning.distributed import is_first_process
from bestofq.learning.resuming import claim, fingerprint, keep

IGNORED = -100  # the label of a token that is read and not learned


class RFTConfig(Noun):
    """One training run. Agent Q gives no numbers; rate and batch are TRL's. Eq. 4 has no penalty for leaving the first
    policy, few rounds are all that holds it (3.2.1): hence one epoch."""

    lr: float = Field(default=2e-5, gt=0, description="peak rate, falling straight to 0")
    epochs: int = Field(default=1, ge=1)
    batch_turns: int = Field(default=8, ge=1, description="turns a forward pass and process")
    accumulate: int = Field(default=1, ge=1, description="forward passes a step")
    lora: LoRAConfig | None = Field(default=None, description="adapters; None trains all weights")
    gradient_checkpointing: bool = Field(default=False, description="less memory, a third more time")
    bf16: bool = Field(default=False, description="matrix products in bfloat16")
    cpu: bool = Field(default=False, description="leave a GPU alone")
    checkpoint_every: int = Field(default=50, ge=1, description="steps")
    seed: int = 0


class RFTProgress(NamedTuple):
    """One step: loss in nats a token of the replies, before the step."""

    step: int
    steps: int
    loss: float
    gradient_norm: float
    lr: float


def train_on_successes(
    model: Any,
    turns: Sequence[Turn],
    config: RFTConfig,
    report: Callable[[RFTProgress], None],
    *,
    tokenizer: Any,
    out: Path,
) -> Path:
    """Minimise -E[Σ_t log π_θ(a_t|h_t)] over `turns`, in place; returns the folder `out/model` with the tokenizer.

    Every token of a reply is learned alike (3.1), none of its prompt. Deviation: a step's loss is the mean over its
    tokens, not the sum over a trajectory, which only scales the rate. The same call again goes on from the last whole
    checkpoint in `out/checkpoints`, and does nothing when it was finished. Raises DataError without turns,
    CheckpointError where `out` holds another run, ConfigError under FSDP.
    """
    if not turns:
        raise DataError("There are 0 turns to train on: no trajectory was successful. Collect more, or search.")
    claim(out, fingerprint(turns, config.model_dump_json(exclude={"checkpoint_every", "cpu"})))
    done = out / "model"
    if done.exists():
        return done
    datasets, trl = extra("datasets"), extra("trl")
    rows = {
        "input_ids": [[*turn.prompt_ids, *turn.reply_ids] for turn in turns],
        "labels": [[IGNORED] * len(turn.prompt_ids) + list(turn.reply_ids) for turn in turns],
    }
    if config.lora is not None:
        torch.manual_seed(config.seed)
        model = with_adapters(model, config.lora)
    else:
        model.requires_grad_(True)
    with renames_ignored():
        arguments = trl.SFTConfig(
            output_dir=str(out / "checkpoints"),
            learning_rate=config.lr,
            num_train_epochs=config.epochs,
            per_device_train_batch_size=config.batch_turns,
            gradient_accumulation_steps=config.accumulate,
            gradient_checkpointing=config.gradient_checkpointing,
            bf16=config.bf16,
            use_cpu=config.cpu or not torch.cuda.is_available(),  # else bf16 is refused
            ddp_find_unused_parameters=False,  # every weight has its part in every reply
            save_steps=config.checkpoint_every,
            save_total_limit=1,
            logging_steps=1,
            max_length=None,
            dataloader_pin_memory=torch.cuda.is_available() and not config.cpu,
            report_to=[],
            disable_tqdm=True,
            seed=config.seed,
        )
        trainer = trl.SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(rows),
            processing_class=tokenizer,
            callbacks=[_telling(report)],
        )
    if trainer.is_fsdp_enabled:
        raise ConfigError("RFT saves no model out of shards: launch it in whole copies (DDP)")
    trainer.remove_callback(transformers.PrinterCallback)
    last = _last_whole(out / "checkpoints")
    with renames_ignored(), _tied_weights_ignored():
        trainer.train(resume_from_checkpoint=last and str(last))
    if trainer.is_world_process_zero():
        trained = trainer.accelerator.unwrap_model(trainer.model)
        trained = trained if config.lora is None else trained.merge_and_unload()
        keep(done, lambda folder: (trained.save_pretrained(folder), tokenizer.save_pretrained(folder)))
    trainer.accelerator.wait_for_everyone()
    return done


@contextmanager
def _tied_weights_ignored() -> Iterator[None]:
    """Without the trainer's warning (transformers 5.23) that a checkpoint lacks the output weights that are the
    input's."""

    def told(record: logging.LogRecord) -> bool:
        return "missing keys" not in record.getMessage() or "['lm_head.weight']" not in record.getMessage()

    logger = logging.getLogger("transformers.trainer")
    logger.addFilter(told)
    try:
        yield
    finally:
        logger.removeFilter(told)


def _last_whole(checkpoints: Path) -> Path | None:
    """The last of the `checkpoint-N` that was written to its end. The first process deletes those that were not."""
    found = {folder: int(folder.name.removeprefix("checkpoint-")) for folder in checkpoints.glob("checkpoint-*")}
    whole = {folder: step for folder, step in found.items() if _is_whole(folder)}
    if is_first_process():
        for folder in found.keys() - whole.keys():
            shutil.rmtree(folder)
    return max(whole, key=whole.__getitem__, default=None)


def _is_whole(checkpoint: Path) -> bool:
    """Whether the trainer's state, which transformers (5.23) writes in place and last, is there and ends."""
    try:
        json.loads((checkpoint / transformers.trainer.TRAINER_STATE_NAME).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return True


def _telling(report: Callable[[RFTProgress], None]) -> Any:
    """A callback of the trainer's."""

    class Telling(transformers.TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
            if logs and "loss" in logs:
                norm, lr = float(logs["grad_norm"]), logs["learning_rate"]
                report(RFTProgress(state.global_step, state.max_steps, float(logs["loss"]), norm, lr))

    return Telling()
