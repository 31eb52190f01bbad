"""States and actions a second of the vision embedder at its real sizes, with random weights.

    python benchmarks/embedder.py --device cuda --out embedder.json        (3B and 7B, one after the other: 8 and 17 GB)
    python benchmarks/embedder.py --sizes tiny --states 4 --actions 16     (whether it runs)

A state is a screenshot of 1280 × 800 and 130 words, as Best-of-Q embeds them (3.1, A.3), an action `--action-words` of
them: some 10 of a label, 40 with its reasoning. The model is built from transformers' class with the published numbers
and never written to disk; nothing is fetched. `states` is `VisionEmbedder.embed_all`, pictures prepared by its threads;
`model alone` the same batches when they are prepared. FLOP are counted by PyTorch in one pass, without attention's,
which are some 5 % more.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.flop_counter import FlopCounterMode

from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.observation import Screenshot
from bestofq.models.checkpoints import Precision
from bestofq.models.embed_vision import AREA, VisionEmbedder

WIDTH, HEIGHT = 1280, 800
CONTROL = ("<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
EYES = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
ROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}

# config.json of Qwen2.5-VL-3B-Instruct and -7B-Instruct: width, feed-forward, layers, heads, those of keys, vocabulary
SIZES: dict[str, tuple[int, int, int, int, int, int]] = {
    "3b": (2048, 11008, 36, 16, 2, 151_936),
    "7b": (3584, 18944, 28, 28, 4, 152_064),
    "tiny": (64, 96, 2, 4, 2, 2_000),
}


def config_of(size: str, ids: dict[str, int]) -> Any:
    """As published, but for the ids of the control tokens."""
    width, inner, layers, heads, keys, words = SIZES[size]
    text = {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": words,
        "bos_token_id": None,
        "eos_token_id": None,
        "max_position_embeddings": 128_000,
        "rope_parameters": ROPE if size != "tiny" else {**ROPE, "mrope_section": [2, 3, 3]},
    }
    eyes = EYES if size != "tiny" else {"depth": 8, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4}
    marks = ("vision_start", "vision_end", "image", "video")
    named = {f"{mark}_token_id": ids[token] for mark, token in zip(marks, CONTROL[1:], strict=True)}
    return transformers.Qwen2_5_VLConfig(text_config=text, vision_config={**eyes, "out_hidden_size": width}, **named)


def embedder(size: str, vocabulary: Sequence[str], folder: Path, device: str, precision: Precision) -> VisionEmbedder:
    """With random weights on `device`, and a tokenizer that knows nearly every word of `vocabulary` as one token."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        [f" {word}" for word in vocabulary] * 2,
        trainers.BpeTrainer(vocab_size=1_900, initial_alphabet=alphabet, show_progress=False),
    )
    found = json.loads(words.to_str())["model"]
    tokenizer = transformers.Qwen2Tokenizer(vocab=found["vocab"], merges=[tuple(pair) for pair in found["merges"]])
    tokenizer.add_special_tokens({"additional_special_tokens": list(CONTROL[1:])})
    ids = dict(zip(CONTROL, tokenizer.convert_tokens_to_ids(list(CONTROL)), strict=True))
    transformers.Qwen2VLImageProcessorPil().save_pretrained(folder)
    with torch.device(device):
        dtype = getattr(torch, precision)
        model = transformers.AutoModel.from_config(config_of(size, ids), dtype=dtype, attn_implementation="sdpa")
    return VisionEmbedder(model, tokenizer, folder, name=size, revision="random", config=EmbedConfig())


def screenshot(draw: random.Random, words: Sequence[str]) -> Screenshot:
    """A page of lines and boxes, as JPEG."""
    page = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(page)
    for y in range(8, HEIGHT - 16, 16):
        pen.text((20, y), " ".join(draw.choices(words, k=22)), fill="black")
    for _ in range(20):
        x, y = draw.randrange(WIDTH - 120), draw.randrange(HEIGHT - 60)
        pen.rectangle((x, y, x + 120, y + 60), fill=(draw.randrange(256), draw.randrange(256), draw.randrange(256)))
    file = io.BytesIO()
    page.save(file, "JPEG", quality=70)
    sha = hashlib.sha256(file.getvalue()).hexdigest()
    return Screenshot(sha256=sha, media_type="image/jpeg", width=WIDTH, height=HEIGHT, data=file.getvalue())


def timed(work: Callable[[], object], device: str) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(size: str, args: argparse.Namespace, device: str, precision: Precision) -> dict[str, float]:
    """What one size does, medians over the rounds, whose parts alternate."""
    draw = random.Random(args.seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(400)]
    said = [" ".join(draw.choices(words, k=130)) for _ in range(args.states)]
    actions = [
        EmbedItem(text="CLICK " + " ".join(draw.choices(words, k=args.action_words))) for _ in range(args.actions)
    ]
    states = [EmbedItem(text=text, screenshots=(screenshot(draw, words),)) for text in said]
    with TemporaryDirectory() as folder:
        ours = embedder(size, words, Path(folder), device, precision)
    per_batch = max(1, AREA // max(map(ours._length, states)))
    batches = [states[at : at + per_batch] for at in range(0, len(states), per_batch)]

    def alone() -> float:
        read = [ours._read(batch) for batch in batches]
        return timed(lambda: [ours._embed(*batch) for batch in read], device)

    ways: dict[str, Callable[[], float]] = {
        "states": lambda: timed(lambda: ours.embed_all(states), device),
        "model alone": alone,
        "preparing": lambda: timed(lambda: [ours._read(batch) for batch in batches], "cpu"),
        "actions": lambda: timed(lambda: ours.embed_all(actions), device),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds + 1):  # the first warms all up
        for name, way in ways.items():
            seconds[name].append(way())
    took = {name: statistics.median(found[1:]) for name, found in seconds.items()}
    uncounted = dict.fromkeys(
        (
            torch.ops.aten._scaled_dot_product_flash_attention,
            torch.ops.aten._scaled_dot_product_efficient_attention,
            torch.ops.aten._scaled_dot_product_cudnn_attention,
        ),
        lambda *_, **__: 0,
    )  # PyTorch's own formulas refuse queries of more heads than keys have
    with FlopCounterMode(display=False, custom_mapping=uncounted) as counter:
        ours._embed(ours._read(states[:1]))
    counts = counter.get_flop_counts()["Global"]
    flop = sum(count for kernel, count in counts.items() if "attention" not in str(kernel))
    rates = {name: args.states / took for name, took in took.items() if name not in ("actions", "preparing")}
    return {
        "parameters": sum(weight.numel() for weight in ours._model.parameters()),
        "tokens_a_state": ours._length(states[0]),
        "tokens_an_action": ours._length(actions[0]),
        "states_a_batch": per_batch,
        "tflop_a_state": round(flop / 1e12, 4),
        "states_per_s": round(rates["states"], 2),
        "tflop_per_s": round(rates["states"] * flop / 1e12, 4),
        "states_per_s_model_alone": round(rates["model alone"], 2),
        "ms_to_prepare_a_state": round(took["preparing"] / args.states * 1000, 2),
        "actions_per_s": round(args.actions / took["actions"], 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=[*SIZES], default=["3b", "7b"])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, …")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--states", type=int, default=72)
    parser.add_argument("--actions", type=int, default=4096)
    parser.add_argument("--action-words", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args(argv)
    device = args.device if args.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and (torch.device(device).index or 0) >= torch.cuda.device_count():
        parser.error(f"PyTorch finds no {device} here: try --sizes tiny --device cpu")
    results = {}
    for size in args.sizes:
        torch.manual_seed(args.seed)
        results[size] = measure(size, args, device, args.precision)
        sys.stdout.write(f"{size}\n" + "".join(f"  {name:34}{value:>16,}\n" for name, value in results[size].items()))
    if args.out:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
        machine = {"gpu": gpu, "cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": head.stdout.strip(),
            "machine": {**machine, "torch": torch.__version__, "transformers": transformers.__version__},
            "precision": args.precision,
            "results": results,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
