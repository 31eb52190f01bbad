"""Each episode's outcome, so that anybody can compute any paired difference again.

python -m experiments.outcomes FILE.csv STORE...
"""

import csv
import sys
from pathlib import Path

from bestofq.store.store import Store

COLUMNS = ("store", "run", "agent", "split", "task", "repeat", "outcome", "steps")


def main() -> None:
    rows = []
    for folder in map(Path, sys.argv[2:]):
        with Store.open(folder, read_only=True) as store:
            rows += [
                (folder.name, e.run, e.agent, e.split, e.task, e.repeat, e.outcome, e.steps) for e in store.summaries()
            ]
    with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted(rows))


if __name__ == "__main__":
    main()
