"""Checkpoints: a model and its tokenizer from a transformers directory or a hub's name; and their hash."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from bestofq.core.errors import SetupError

Precision = Literal["auto", "float32", "bfloat16"]
POCKET_TEMPLATE = (  # the chat template of models that read short prompts: the messages, a line each
    "{{ bos_token }}{% for message in messages %}{{ message.content }}"
    '{% if not loop.last %}{{ "\\n" }}{% endif %}{% endfor %}'
)


def load_checkpoint(auto: Any, path: str | Path, device: str, precision: Precision) -> tuple[Any, Any, str, str]:
    """A model of transformers' class `auto`, its tokenizer, device and revision; by default on the GPU, in bfloat16
    where the hardware multiplies it. OSError or ValueError where it cannot be read."""
    target = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    if precision == "auto":
        fast = torch.cuda.is_bf16_supported() if target.startswith("cuda") else torch.cpu._is_avx512_bf16_supported()
        precision = "bfloat16" if fast else "float32"
    disable_progress_bar()  # of reading weights: they are ours to announce
    config = AutoConfig.from_pretrained(path)
    config._attn_implementation = None  # whatever it says: "sdpa" where the class has it, else "eager"
    model = auto.from_pretrained(path, config=config, dtype=getattr(torch, precision))
    return model, AutoTokenizer.from_pretrained(path), target, revision_of(model.config, path)


def revision_of(config: Any, path: str | Path) -> str:
    """The hub's commit, or a hash of the weights on disk."""
    return getattr(config, "_commit_hash", None) or weights_hash(Path(path))


@contextmanager
def checkpoint_errors(path: str | Path) -> Iterator[None]:
    """SetupError, with what to give instead, where no checkpoint can be read from `path`."""
    advice = "give --model a transformers directory, a hub's owner/name, or with it the --base-url of an endpoint"
    if _nowhere(path):
        raise SetupError(f"no language model at {path}: {advice}")
    try:
        yield
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise SetupError(f"no language model at {path}: {advice} ({reason})") from error


def _nowhere(path: str | Path) -> bool:
    """Whether it can be no model: nothing lies there, and the hub's own are all owner/name."""
    return len(Path(path).parts) == 1 and not Path(path).exists()


def has_own_template(path: str | Path) -> bool:
    """Whether a checkpoint has a chat template that is not the pocket models'; False where no tokenizer is."""
    try:
        return not _nowhere(path) and _template(path) not in (None, POCKET_TEMPLATE)
    except (OSError, ValueError):
        return False


@cache
def _template(path: str | Path) -> str | None:
    found: str | None = AutoTokenizer.from_pretrained(path).chat_template
    return found


def weights_hash(path: Path) -> str:
    """16 hex digits over a directory's weight files. SetupError without any."""
    files = sorted(path.glob("*.safetensors")) or sorted(path.glob("pytorch_model*.bin"))
    if not files:
        raise SetupError(f"no weights in {path}: copy the model's .safetensors or pytorch_model.bin files there")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as weights:
            hashlib.file_digest(weights, lambda: digest)
    return digest.hexdigest()[:16]
