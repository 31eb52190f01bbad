"""The two arms of `run.sh`, task by task: success and reward, with intervals over tasks. Writes result.json.

compare.py runs/serve-browser-use experiments/serve-browser-use/result.json
"""

import json
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

from bestofq.reports.stats import Attempt, paired_difference, success_interval

ARMS = ("prompting", "best-of-q")


def read(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Rows of the driver, by task; only what has been recorded by the proxy, too."""
    lines = (line for file in sorted(folder.glob(f"{name}-*.jsonl")) for line in file.open())
    return {row["task"]: row for row in map(json.loads, lines)}


def attempts(rows: dict[str, dict[str, Any]]) -> list[Attempt]:
    return [Attempt(task, "ab", row["reward"] == 1.0, row["steps"]) for task, row in rows.items()]


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    interval = success_interval(attempts(rows))
    return {
        "tasks": len(rows),
        "success": mean(row["reward"] == 1.0 for row in rows.values()),
        "success_interval": [interval.low, interval.high],
        "reward": mean(row["reward"] for row in rows.values()),
        "steps": mean(row["steps"] for row in rows.values()),
        "errors": sum(row["errors"] for row in rows.values()),
        "recorded": sum(row["recorded"] for row in rows.values()),
        "median_seconds": median(row["seconds"] for row in rows.values()),
    }


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    arms = {name: read(folder, name) for name in ("record", *ARMS)}
    result: dict[str, Any] = {name: summary(rows) for name, rows in arms.items() if rows}
    both = arms[ARMS[0]].keys() & arms[ARMS[1]].keys()
    ours, theirs = ({task: arms[name][task] for task in both} for name in reversed(ARMS))
    if found := paired_difference(attempts(ours), attempts(theirs)) if both else None:
        result["difference"] = {"mean": found.mean, "interval": [found.low, found.high], "tasks": found.tasks}
    out.write_text(json.dumps(result, indent=1) + "\n")
    for name, one in result.items():
        sys.stdout.write(f"{name}: {one}\n")


if __name__ == "__main__":
    main()
