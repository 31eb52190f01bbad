"""How often intervals hold the truth: `bca`, which reports print, beside the percentiles of the same resamples.

    .venv/bin/python benchmarks/coverage.py --out benchmarks/results/coverage.json

Each benchmark draws tasks from a population whose success is known: an agent's success, and the paired difference of
two agents of whom the second is 0.1 better. 95 % is nominal. Two thousand benchmarks a row are sure to about one point.
About ten minutes on one core.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from bestofq.recipes.identity import commit
from bestofq.reports import stats

ROWS = [(tasks, runs, success) for tasks in (20, 60, 200) for runs in (1, 3) for success in (0.05, 0.5, 0.85)]


class Row(NamedTuple):
    """Coverage in [0, 1] of success and of the difference, each by both kinds of interval."""

    tasks: int
    runs: int
    success: float
    percentile: float
    bca: float
    difference_percentile: float
    difference_bca: float


def values(rng: np.random.Generator, tasks: int, runs: int, success: float) -> tuple[stats.Doubles, stats.Doubles]:
    """By task [T], the first agent's success over its runs, and the second's minus the first's."""
    ease = rng.beta(2 * success, 2 * (1 - success), tasks)  # tasks differ: most are solved nearly always or never
    first = rng.binomial(runs, ease * 0.9, tasks) / runs
    return first, rng.binomial(runs, ease * 0.9 + 0.1, tasks) / runs - first


def covered(drawn: stats.Doubles, truth: float, span: stats.Span) -> Iterator[bool]:
    """Whether the percentiles and `bca` hold the truth, for the mean of values [T]."""
    counts = np.stack([drawn, np.ones(len(drawn))], axis=1)
    means = stats.quotient(stats.resample(counts, stats.RESAMPLES))
    plain = stats.percentiles(means)
    if stats.alike(plain):
        plain = stats.clopper_pearson_interval(float(drawn.mean()), len(drawn), span)
    found = stats.measure(counts, stats.quotient, span=span).interval
    assert found is not None
    return (i.low - 1e-9 <= truth <= i.high + 1e-9 for i in (plain, found))


def coverage(tasks: int, runs: int, success: float, benchmarks: int) -> Row:
    rng = np.random.default_rng([tasks, runs, round(100 * success)])
    hits = np.zeros(4)
    for _ in range(benchmarks):
        first, difference = values(rng, tasks, runs, success)
        hits += [*covered(first, 0.9 * success, stats.UNIT), *covered(difference, 0.1, stats.SIGNED)]
    return Row(tasks, runs, success, *(hits / benchmarks).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--benchmarks", type=int, default=2000)
    asked = parser.parse_args()
    console, rows = Console(), list[Row]()
    for sizes in ROWS:
        rows.append(coverage(*sizes, asked.benchmarks))
        console.print(*(f"{name} {value:.3f}" for name, value in rows[-1]._asdict().items()))
    if asked.out:
        result = {
            "command": shlex.join(sys.argv),
            "commit": commit(),
            "benchmarks": asked.benchmarks,
            "rows": [row._asdict() for row in rows],
        }
        asked.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
