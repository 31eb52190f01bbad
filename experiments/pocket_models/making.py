"""Make the pocket model: demonstrations → tokenizer → language-model training → an ordinary checkpoint directory.

`python -m experiments pocket --out FOLDER` repeats it; nothing but this code and a seed goes in. With `base` a
checkpoint is taught further instead, with its own tokenizer.
"""

import asyncio
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import Field
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bestofq.core.errors import CheckpointError
from bestofq.core.frozen import FrozenModel
from bestofq.learning.distributed import choose_device
from bestofq.recipes.identity import this_command
from bestofq.rollouts.console import console
from experiments.pocket_models.demonstrations import DemonstrationConfig, demonstrate
from experiments.pocket_models.examples import Example
from experiments.pocket_models.induction import ROPE_THETA, InductionConfig, drill, drill_training, lay_heads
from experiments.pocket_models.sft import Progress as Report
from experiments.pocket_models.sft import SFTConfig, TokenizedExample, train_language_model
from experiments.pocket_models.tokenizer import train_tokenizer

LOG = "training_log.json"
ATTENTION = "eager"  # on a CPU its backward pass is twice as fast as the fused kernel's


class PocketConfig(FrozenModel):
    """All that the checkpoint depends on."""

    base: Path | None = Field(
        default=None, description="checkpoint to start from. Default: from nothing, in sizes below"
    )
    examples: int = Field(default=120_000, description="demonstrated states")
    vocabulary: int = 2048
    width: int = Field(default=256, description="hidden size")
    layers: int = 6
    heads: int = 4
    feed_forward: int = 704
    context: int = Field(default=2048, description="longest prompt and reply, tokens")
    seed: int = 0
    induction: InductionConfig = InductionConfig()
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    training: SFTConfig = SFTConfig()


def make_pocket_model(config: PocketConfig, out: Path) -> None:
    """Write model, tokenizer and training log to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config.seed)
    started = time.monotonic()
    console.print(f"making {config.examples:,} demonstrations")
    examples = asyncio.run(demonstrate(config.demonstrations, config.examples, config.seed))
    model, tokenizer = _start(config, examples) if config.base is None else _load(config.base)
    device = choose_device("auto")
    model.to(device)
    tokenized = [_tokenize(tokenizer, example) for example in examples]
    copying = config.induction
    if copying.steps:
        rows_kept = drill(copying, len(tokenizer), round(copying.share * len(examples)), config.seed)
        tokenized.extend(TokenizedExample(row.tokens, []) for row in rows_kept)  # among all tokens, not as replies
    log: dict[str, object] = {
        "command": this_command(),
        "config": config.model_dump(mode="json"),
        "parameters": sum(p.numel() for p in model.parameters()),
        "machine": {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
    }
    rows: list[dict[str, float]] = []

    def tell(row: Report) -> None:
        rows.append({**row._asdict(), "seconds": round(time.monotonic() - started, 1)})
        console.print(f"step {row.step}: loss {row.loss_all:.3f}, of replies {row.loss_reply:.3f}")

    def report(row: Report) -> None:
        tell(row)
        if row.step % 100 == 0 or row.step == config.training.steps:
            save(model, tokenizer, out)
            (out / LOG).write_text(json.dumps({**log, "rows": rows}, indent=1) + "\n", "utf-8")

    if copying.steps and config.base is None:
        console.print(f"drilling copies: {copying.steps:,} steps")
        count = copying.steps * (copying.batch_tokens // copying.width)
        phrases = list(drill(copying, len(tokenizer), count, config.seed + 1))
        train_language_model(model, phrases, drill_training(copying, config.training), tell)
        log["drill"], rows = rows, []
    console.print(f"training: {config.training.steps:,} steps")
    train_language_model(model, tokenized, config.training, report)


def _start(config: PocketConfig, examples: Sequence[Example]) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    tokenizer = train_tokenizer(("".join(map("".join, example)) for example in examples[:20_000]), config.vocabulary)
    induction = config.induction.steps > 0
    model = LlamaForCausalLM(
        LlamaConfig(
            attention_bias=induction,
            rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA if induction else 10_000.0},
            vocab_size=len(tokenizer),
            hidden_size=config.width,
            intermediate_size=config.feed_forward,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            max_position_embeddings=config.context,
            tie_word_embeddings=True,
            attn_implementation=ATTENTION,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    if induction:
        lay_heads(model)
    return model, tokenizer


def _load(base: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """CheckpointError where `base` holds none."""
    try:
        model = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation=ATTENTION)
        return model, PreTrainedTokenizerFast.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{base} is no checkpoint to go on from: {error}") from error


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """An ordinary transformers directory, weights in bfloat16; the output layer is the embedding's, and kept once."""
    kept = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    state = {name: value.to(torch.bfloat16) for name, value in kept.items()}
    model.config.dtype = torch.bfloat16
    model.generation_config.do_sample = True  # a server's word for "a temperature above 0 counts"
    model.save_pretrained(out, state_dict=state)
    tokenizer.save_pretrained(out)


def _tokenize(tokenizer: PreTrainedTokenizerFast, example: Example) -> TokenizedExample:
    tokens: list[int] = [tokenizer.bos_token_id]
    replies = []
    for turn in example:
        tokens += tokenizer.encode(turn.prompt, add_special_tokens=False)
        start = len(tokens)
        tokens += tokenizer.encode(turn.reply, add_special_tokens=False)
        replies.append((start, len(tokens)))
    tokens.append(tokenizer.eos_token_id)
    replies[-1] = (replies[-1][0], len(tokens))
    return TokenizedExample(tokens, replies)
