"""A reader of your own: the log of an agent that wrote a table, a row a step, as records that `bestofq import` takes.

    .venv/bin/python examples/own_reader.py runs/steps.csv
    .venv/bin/bestofq import examples.own_reader:read runs/steps.csv --store runs/steps
    .venv/bin/bestofq report runs/steps --table agents

The first command writes such a log; it takes no time. The part before the colon is a module of the current folder or of
an installed package.
"""

import csv
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

HEADS = ("session", "goal", "page", "action", "alternatives", "won")


def read(log: Path) -> Iterator[dict[str, Any]]:
    """An episode a session. The action taken stands first among its candidates."""
    with log.open(encoding="utf-8", newline="") as file:
        for session, rows in groupby(csv.DictReader(file), lambda row: row["session"]):
            steps = list(rows)
            yield {
                "id": session,
                "goal": steps[0]["goal"],
                "steps": [
                    {"observation": row["page"], "candidates": [row["action"], *row["alternatives"].split("|")]}
                    for row in steps
                ],
                "outcome": steps[-1]["won"] == "yes",
            }


def write(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADS)
        for session in range(6):
            colour, won = ("red", "no") if session % 3 else ("blue", "yes")
            goal = f"open the blue lamp, try {session}"
            rows.writerow((session, goal, "lamps: red, blue", f"open the {colour} lamp", "go back|wait 2", won))


if __name__ == "__main__":
    there = Path(sys.argv[1] if sys.argv[1:] else "runs/own_reader/steps.csv")
    write(there)
    for record in read(there):
        print(record["id"], record["goal"], record["steps"][0]["candidates"], record["outcome"])
