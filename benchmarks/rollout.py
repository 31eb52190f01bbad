"""Rollouts of Q-functions that harm, do nothing or help: how often they end or go to all, and what they cost.

    python benchmarks/rollout.py --out benchmarks/results/rollout.json

The agent's own replies succeed at one rate, the ranked ones at another. Each run has so many sessions, one after the
other, each ranked with the rollout's share. Twenty minutes on one core.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from bestofq.reports.rollout import ALPHA, Rollout

OWN = 0.5
GAINS = (-0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.3)


def simulate(gain: float, sessions: int, random: Random) -> tuple[Rollout, float, int | None, int | None]:
    """Return the end of one rollout, successes lost by ranking, and after how many sessions none or all are ranked."""
    state, lost, ended, raised = Rollout(), 0.0, None, None
    for number in range(1, sessions + 1):
        ranked = random.random() < state.share
        lost -= gain * ranked
        state = state.after(random.random() < OWN + gain * ranked, ranked=ranked)
        if state.stopped:
            ended = number
            break
        if raised is None and state.share == 1:
            raised = number
            if gain > 0:
                break
    return state, lost, ended, raised


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--sessions", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    rows: list[dict[str, Any]] = []
    for gain in GAINS:
        random = Random(f"{args.seed} {gain}")
        runs = [simulate(gain, args.sessions, random) for _ in range(args.runs)]
        ended = [number for _, _, number, _ in runs if number]
        raised = [number for _, _, _, number in runs if number]
        row = {
            "gain": gain,
            "ended": len(ended) / args.runs,
            "median_sessions_to_end": statistics.median(ended) if ended else None,
            "all_ranked": len(raised) / args.runs,
            "median_sessions_to_all": statistics.median(raised) if raised else None,
            "successes_lost": statistics.mean(lost for _, lost, _, _ in runs),
            "sessions_ranked": statistics.mean(sum(state.ranked) for state, *_ in runs),
        }
        rows.append(row)
        sys.stdout.write(f"{json.dumps(row)}\n")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    result = {
        "command": " ".join(["python", *sys.argv]),
        "seed": args.seed,
        "commit": commit,
        "machine": machine,
        "alpha": ALPHA,
        "own": OWN,
        "runs": args.runs,
        "sessions": args.sessions,
        "rows": rows,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
