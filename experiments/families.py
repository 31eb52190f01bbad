"""Differences to the first candidate with whole families of MiniWoB++'s tasks resampled, from a committed result.

python -m experiments.families experiments/ladder/problems-families.json
"""

import json
import sys
from pathlib import Path

import numpy as np

from bestofq.envs.miniwob.settings import HELD_OUT

DRAWS = 10_000


def main() -> None:
    domains = json.loads(Path(sys.argv[1]).read_text("utf-8"))["domains"]
    family = {task: name for name, tasks in HELD_OUT.items() for task in tasks}
    rows = [row for row in domains["rows"] if row["domain"] in family]
    names = sorted({family[row["domain"]] for row in rows})
    tasks, wins = np.zeros(len(names)), np.zeros((len(names), len(domains["agents"])))
    for row in rows:
        place = names.index(family[row["domain"]])
        tasks[place] += row["tasks"]
        wins[place] += [cell["outcomes"].get("success", 0) for cell in row["cells"]]
    drawn = np.random.default_rng(0).integers(len(names), size=(DRAWS, len(names)))
    for agent, gain in zip(domains["agents"], (wins - wins[:, :1]).T, strict=True):
        low, high = np.percentile(100 * gain[drawn].sum(1) / tasks[drawn].sum(1), [2.5, 97.5])
        mean = 100 * gain.sum() / tasks.sum()
        sys.stdout.write(f"{agent:12} {mean:+.1f} [{low:+.1f}, {high:+.1f}] in {len(names)} families\n")


if __name__ == "__main__":
    main()
