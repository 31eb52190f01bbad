"""Low-rank adapters on a language model, through PEFT."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bestofq.core.extras import extra
from bestofq.learning.config import LoRAConfig


def with_adapters(model: Any, config: LoRAConfig) -> Any:
    """`model` with adapters drawn by torch's generator and everything else frozen. SetupError without PEFT."""
    peft = extra("peft")
    adapters = peft.LoraConfig(
        r=config.rank, lora_alpha=config.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with renames_ignored():
        return peft.get_peft_model(model, adapters)


@contextmanager
def renames_ignored() -> Iterator[None]:
    """Without transformers' warning that PEFT and TRL still say `gradient_checkpointing`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`\w*gradient_checkpointing\w*` is deprecated", FutureWarning)
        yield
