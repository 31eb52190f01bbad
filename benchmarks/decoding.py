"""Tokens per second of `LocalModel` beside transformers' own `generate`, interleaved in one run.

    python benchmarks/decoding.py --rounds 5 --out benchmarks/results/decoding.json

The shipped pocket-agentq, prompts of random tokens. Greedy replies, a batch at a time; then twice
as many requests as a batch holds, in flight at once, beside the same as batches one after the other.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from bestofq.core.language import Generation, Request, user
from bestofq.models.local import LocalModel
from bestofq.recipes.identity import commit
from bestofq_sites.shipped import POCKET_AGENTQ

Run = Callable[[], int]  # gives the tokens written


def requests(model: LocalModel, count: int, *, length: int, limit: int, seed: int) -> list[Request]:
    """Prompts of `length` random tokens, of text as the tokenizer reads it back."""
    made = torch.randint(3, len(model.tokenizer), (count, length), generator=torch.Generator().manual_seed(seed))
    return [Request(messages=user(text), max_tokens=limit) for text in model.tokenizer.batch_decode(made)]


def ours(model: LocalModel, asked: Sequence[Request]) -> int:
    return _tokens(model.generate_batch(asked))


def ours_in_flight(model: LocalModel, asked: Sequence[Request]) -> int:
    async def all_at_once() -> list[Generation]:
        return await asyncio.gather(*(model.generate(request) for request in asked))

    return _tokens(asyncio.run(all_at_once()))


@torch.inference_mode()
def theirs(model: LocalModel, asked: Sequence[Request]) -> int:
    """As its documentation has it: sdpa, prompts padded on the left."""
    prompts = [model.encode(request.prompt) for request in asked]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    seen = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    before = model.model.config._attn_implementation
    model.model.set_attn_implementation("sdpa")
    try:
        found = model.model.generate(
            input_ids=ids,
            attention_mask=seen,
            do_sample=False,
            temperature=None,
            max_new_tokens=asked[0].max_tokens,
        )
    finally:
        model.model.set_attn_implementation(before)
    return int((found[:, width:] != model.tokenizer.pad_token_id).sum())


def _tokens(generations: Sequence[Generation]) -> int:
    return sum(generation.usage.tokens_out for generation in generations)


def measured(runs: dict[str, Run], rounds: int) -> dict[str, dict[str, float]]:
    """Each in turn, `rounds` times after one to warm up: median tokens a second, and the first's ratio to each."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            tokens = run()
            if number:
                rates[name].append(tokens / (time.perf_counter() - began))
    first = next(iter(rates.values()))
    return {
        name: {
            "tokens_per_s": round(statistics.median(found), 1),
            "ours_is_times": round(statistics.median(a / b for a, b in zip(first, found, strict=True)), 2),
        }
        for name, found in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="prompts")
    parser.add_argument("--length", type=int, default=300, help="tokens a prompt")
    parser.add_argument("--limit", type=int, default=40, help="tokens a reply, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model = LocalModel.load(POCKET_AGENTQ, device="cpu")
    greedy, more = (
        requests(model, args.batch, length=args.length, limit=args.limit, seed=args.seed + number) for number in (0, 1)
    )
    results = {
        name: measured(runs, args.rounds)
        for name, runs in {
            "greedy": {"ours": lambda: ours(model, greedy), "transformers": lambda: theirs(model, greedy)},
            "in flight": {
                "two batches at once": lambda: ours_in_flight(model, [*greedy, *more]),
                "one after the other": lambda: ours(model, greedy) + ours(model, more),
            },
        }.items()
    }
    found = {
        "command": ["python", *sys.argv],
        "seed": args.seed,
        "commit": commit(),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "load_average": os.getloadavg()[0],
            "torch": torch.__version__,
        },
        "results": results,
    }
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if args.out:
        args.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
