"""Gradient steps per second of `train_iql`, beside a plain PyTorch loop and d3rlpy's IQL, interleaved in one run.

    python benchmarks/iql.py --rounds 5 --steps 20 --d3rlpy-python path/to/venv/bin/python --out iql.json

All three have the networks of Best-of-Q B.2 (d3rlpy by an encoder of its own kind, in `iql_d3rlpy.py`), batch 128, Adam
with weight decay and clipping. Q's target is copied once a round, and there are 40 transitions for each of its steps:
as 4,000 are for the 100 steps between two copies in B.1. d3rlpy is given one critic and spared its actor. For the
second interpreter: `python -m venv d3 && d3/bin/pip install torch d3rlpy==2.8.1` (from the CPU index without a GPU).
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
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from bestofq.core.transitions import Transitions
from bestofq.learning.batches import Batches
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import IQL, choose_update
from bestofq.learning.networks import QNetwork, VNetwork

PAPER = NetworkConfig(project=1024, hidden="paper")  # B.2, at any width of the vectors
Run = Callable[[int], float]  # steps -> seconds


def random_transitions(dim: int, count: int, seed: int) -> Transitions:
    """`count` steps over as many random vectors."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(count, size=(4, count))
    return Transitions(
        vectors=rng.standard_normal((count, dim)).astype(np.float32),
        state=rows[0],
        action=rows[1],
        task=rows[2],
        next_state=rows[3],
        reward=(rng.random(count) < 0.05).astype(np.float32),
        terminal=rng.random(count) < 0.1,
    )


def ours(data: Transitions, config: IQLConfig) -> Run:
    iql = IQL(data.dim, config)
    batches = Batches(data, batch_size=config.batch_size, seed=config.seed, device=iql.device, dtype=iql.dtype)
    iql.value_once(batches)
    update = choose_update(iql, batches)

    def run(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            losses = update()
        losses.tolist()
        return time.perf_counter() - began

    return run


def plain(data: Transitions, config: IQLConfig) -> Run:
    """Equations 3 and 4 as one would first write them: float32, no autocast, default Adam, no tricks."""
    torch.manual_seed(config.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    q, v = QNetwork(data.dim, PAPER).to(device), VNetwork(data.dim, PAPER).to(device)
    target = copy.deepcopy(q).eval()
    optimizers = [torch.optim.Adam(n.parameters(), config.lr_q, weight_decay=config.weight_decay) for n in (q, v)]
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, config.steps) for o in optimizers]
    table = torch.from_numpy(data.vectors)
    columns = [torch.from_numpy(x) for x in (data.state, data.action, data.task, data.next_state)]
    reward, terminal = torch.from_numpy(data.reward), torch.from_numpy(data.terminal).float()
    done = 0

    def step() -> float:
        rows = torch.randint(len(data), (config.batch_size,))
        state, action, task, following = (table[column[rows]].to(device) for column in columns)
        with torch.no_grad():
            goal = target(state, action, task)
            onward = v(following, task)
        diff = goal - v(state, task)
        v_loss = ((config.expectile - (diff < 0).float()).abs() * diff**2).mean()
        aim = reward[rows].to(device) + config.discount * (1 - terminal[rows].to(device)) * onward
        q_loss = ((aim - q(state, action, task)) ** 2).mean()
        for network, loss, optimizer, schedule in zip((q, v), (q_loss, v_loss), optimizers, schedules, strict=True):
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm)
            optimizer.step()
            schedule.step()
        return float(q_loss)

    def run(steps: int) -> float:
        nonlocal done
        began = time.perf_counter()
        for _ in range(steps):
            step()
            done += 1
            if done % config.target_update_every == 0:
                target.load_state_dict(q.state_dict())
        return time.perf_counter() - began

    return run


def d3rlpy(python: Path, dim: int, threads: int) -> tuple[Run, subprocess.Popen[str]]:
    """A worker process under another interpreter; it takes a number of steps per line and answers in seconds."""
    worker = Path(__file__).with_name("iql_d3rlpy.py")
    process = subprocess.Popen(
        [python, worker, str(dim), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run(steps: int) -> float:
        stdin.write(f"{steps}\n")
        stdin.flush()
        for line in stdout:
            if line.startswith("seconds "):
                return float(line.removeprefix("seconds "))
        raise SystemExit(f"d3rlpy's worker ended with {process.wait()}; its message is above.")

    return run, process


def measure(contenders: dict[str, Run], *, rounds: int, steps: int) -> dict[str, list[float]]:
    """Steps per second of each contender in each round, after two steps to warm up."""
    for run in contenders.values():
        run(2)
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            rates[name].append(steps / run(steps))
    return rates


def summary(rates: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Medians, and ours as a multiple of each: the median over rounds of the ratio within the round."""
    first = rates["train_iql"]
    return {
        name: {
            "steps_per_s": round(statistics.median(values), 2),
            "train_iql_is_times": round(statistics.median(a / b for a, b in zip(first, values, strict=True)), 2),
        }
        for name, values in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--dims", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="per contender and round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--d3rlpy-python", type=Path, help="an interpreter that has d3rlpy")
    parser.add_argument("--out", type=Path, help="JSON file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)

    results = {}
    for dim in given.dims:
        data = random_transitions(dim, 40 * given.steps, given.seed)
        config = IQLConfig(seed=given.seed, network=PAPER, target_update_every=given.steps)
        contenders = {"train_iql": ours(data, config), "plain PyTorch": plain(data, config)}
        direct = config.model_copy(update={"network": PAPER.model_copy(update={"project": None})})
        contenders["train_iql, project=None"] = ours(data, direct)
        process = None
        if given.d3rlpy_python:
            contenders["d3rlpy"], process = d3rlpy(given.d3rlpy_python, dim, given.threads)
        else:
            sys.stdout.write("d3rlpy is not measured: name an interpreter that has it with --d3rlpy-python.\n")
        results[str(dim)] = summary(measure(contenders, rounds=given.rounds, steps=given.steps))
        if process is not None:
            process.communicate("")
        for name, row in results[str(dim)].items():
            sys.stdout.write(
                f"dim {dim:5}  {name:24} {row['steps_per_s']:8.2f} steps/s   x {row['train_iql_is_times']:.2f}\n"
            )

    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    report = {
        "command": ["python", *sys.argv],
        "seed": given.seed,
        "commit": commit.stdout.strip() or None,
        "machine": {
            "processor": torch.cuda.get_device_name()
            if torch.cuda.is_available()
            else torch.cpu.get_capabilities().get("cpu_name", platform.machine()),
            "cores": os.cpu_count(),
            "threads": given.threads,
            "load_average": os.getloadavg()[0],
            "torch": torch.__version__,
        },
        "results": results,
    }
    if given.out:
        given.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
