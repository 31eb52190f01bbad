"""Memory of each process of a DPO training under FSDP, beside what `tuning_memory.py` says on paper.

    python -m benchmarks.fsdp_memory --out benchmarks/results/fsdp_memory.json

A model of random weights is trained for a few steps by 1, 2 and 4 processes over gloo on the CPU, all of its weights or
adapters alone. At the last step each process adds up the tensors that it holds of weights, gradients and Adam's state.
What it takes besides (gathered blocks, activations, logits, the allocator's rest) is the resident memory at its highest
during the last steps, less what was resident before the model was loaded.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.config import DPOConfig
from bestofq.learning.tuning import train_policy

FSDP = Path(__file__).parents[1] / "examples" / "accelerate" / "fsdp.yaml"
PROMPT, ANSWER, PAIRS = 64, 32, 4  # tokens, tokens, pairs of each process a step
STEPS = 3
VOCABULARY = 8192


def size_of(tensors: Iterable[Any]) -> int:
    """Bytes of what this process holds of them."""
    local = (tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors)
    return sum(tensor.nbytes for tensor in local)


def resident(which: str) -> int:
    """Bytes: VmRSS or RssFile now, or VmHWM, the highest since `forget_highest`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def forget_highest() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def dpo(lora: bool, processes: int, precision: str) -> DPOConfig:
    return DPOConfig(
        batch_size=PAIRS * processes,
        micro_batch_tokens=PAIRS * (PROMPT + 2 * ANSWER),
        lora=16 if lora else None,
        gradient_checkpointing=True,
        precision=precision,
        device="cpu",
        checkpoint_every=STEPS,
    )


def pairs(count: int) -> list[PreferencePair]:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(3, VOCABULARY, (count, PROMPT + 2 * ANSWER), generator=generator).tolist()
    made: list[PreferencePair] = []
    for row in drawn:
        replies = (tuple(row[PROMPT : PROMPT + ANSWER]), tuple(row[PROMPT + ANSWER :]))
        chosen, rejected = (Turn(prompt_ids=tuple(row[:PROMPT]), reply_ids=ids, log_prob=-200.0) for ids in replies)
        made.append(PreferencePair(chosen=(chosen,), rejected=(rejected,), margin=1.0, task=f"random-{len(made)}"))
    return made


def worker(given: argparse.Namespace) -> None:
    """One process: trains, and writes what it held."""
    torch.set_num_threads(1)
    state = PartialState(cpu=True)
    if state.num_processes > 1:  # accelerate shards over GPUs alone, though PyTorch does so on CPUs too
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    before, mapped = resident("VmRSS"), resident("RssFile")
    held: dict[str, int] = {}

    def begun(optimizer: Any, *_: Any) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        held["gradients"] = size_of(weight.grad for weight in weights if weight.grad is not None)
        held["trained"] = size_of(weights)

    def done(optimizer: Any, *_: Any) -> None:
        held["adam"] = size_of(value for some in optimizer.state.values() for value in some.values())
        held["highest"] = resident("VmHWM") - before
        held["mapped"] = resident("RssFile") - mapped
        if "all" not in held:  # the first step: Adam's state is made, the loading is over
            gc.collect()
            forget_highest()
        held["all"] = size_of(weight for some in watched for weight in some.parameters())

    watched: list[Any] = []
    prepared = torch.nn.Module.train
    register_optimizer_step_pre_hook(begun)
    register_optimizer_step_post_hook(done)
    dtype = torch.bfloat16 if given.lora else torch.float32
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=dtype)

    def train(module: Any, mode: bool = True) -> Any:
        if not watched:
            watched.append(module)  # what `accelerate.prepare` made of the model
        return prepared(module, mode)

    config = dpo(given.lora, state.num_processes, given.precision)
    with patch.object(torch.nn.Module, "train", train):
        drawn = pairs(STEPS * config.batch_size)
        train_policy(model, drawn, config, lambda _: None, out=given.folder / "out")
    (given.folder / f"{state.process_index}.json").write_text(json.dumps(held))
    state.destroy_process_group()


def measure(model: Path, lora: bool, processes: int, precision: str) -> dict[str, Any]:
    """MB of each process, and on paper."""
    with TemporaryDirectory() as folder:
        command = [__file__, "--folder", folder, "--model", str(model), "--precision", precision]
        launched = ["accelerate.commands.launch", f"--config_file={FSDP}", f"--num_processes={processes}"]
        start = ["-m", *launched, "--main_process_port=0"] if processes > 1 else []
        # large blocks go back to the system at once, so that what is resident is what is held
        environment = os.environ | {
            "MALLOC_MMAP_THRESHOLD_": "65536",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        subprocess.run([sys.executable, *start, *command, *(["--lora"] if lora else [])], env=environment, check=True)
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(processes)]
    from benchmarks.tuning_memory import tuning_memory  # not known to the processes that this file starts

    paper = tuning_memory(str(model), dpo(lora, processes, precision), processes)
    of_each = [
        {
            "frozen weights": one["all"] - one["trained"],
            "trained weights": one["trained"],
            "gradients": one["gradients"],
            "adam": one["adam"],
            "trained, gradients, adam": one["trained"] + one["gradients"] + one["adam"],
            "resident, at most": one["highest"],
            "of it mapped files": one["mapped"],
        }
        for one in found
    ]
    megabytes = [{name: round(value / 1e6, 1) for name, value in one.items()} for one in of_each]
    return {
        "measured": megabytes,
        "on paper": {name: round(value / 1e6, 1) for name, value in paper._asdict().items() if name != "stored"}
        | {"all": round(paper.all / 1e6, 1)},
    }


def compare(given: argparse.Namespace) -> None:
    shape = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=10, vocab_size=VOCABULARY)
    shape.num_attention_heads = shape.num_key_value_heads = 12
    results = {}
    with TemporaryDirectory() as folder:
        torch.manual_seed(0)
        model = LlamaForCausalLM(shape)
        model.save_pretrained(folder)
        weights = sum(weight.numel() for weight in model.parameters())
        del model
        for lora in (False, True):
            for processes in given.processes:
                name = f"{'adapters' if lora else 'all weights'}, {processes} processes"
                results[name] = row = measure(Path(folder), lora, processes, given.precision)
                sys.stdout.write(f"{name}\n  {row['measured'][0]}\n  {row['on paper']}\n")
                sys.stdout.flush()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    report = {
        "command": " ".join(["python", *sys.argv]),
        "seed": 0,
        "commit": commit.stdout.strip(),
        "machine": {
            "cpu": platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "torch": torch.__version__,
        },
        "model": {"parameters": weights, "tokens of a pass": PAIRS * (PROMPT + 2 * ANSWER), "steps": STEPS},
        "megabytes of each process": results,
    }
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--precision", default="bfloat16", help="of the passes: bfloat16, as on paper, or float32")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lora", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    worker(given) if given.folder else compare(given)


if __name__ == "__main__":
    main()
