"""Each episode's outcome, so that anybody can compute any paired difference again.

    python -m experiments.outcomes write FILE.csv STORE...
    python -m experiments.outcomes gains FILE.csv STORE:RUN:AGENT    each row minus this one, groups of tasks resampled
    python -m experiments.outcomes families FILE.json    each agent minus the first, MiniWoB++'s families resampled

A group is what a task's name has before its slash: the kind of MiniWoB++, the site of the quirky sites. Trainings are
resampled, too.
"""

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestofq.envs.miniwob.settings import HELD_OUT
from bestofq.store.store import Store

COLUMNS = ("store", "run", "agent", "split", "task", "repeat", "outcome", "steps")
DRAWS = 10_000


def write(path: Path, *folders: str) -> None:
    rows = []
    for folder in map(Path, folders):
        with Store.open(folder, read_only=True) as store:
            found = store.summaries()
        rows += [(folder.name, e.run, e.agent, e.split, e.task, e.repeat, e.outcome, e.steps) for e in found]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted(rows))


def gains(path: Path, baseline: str) -> None:
    """Print each row's success and gain in points, passes averaged. Runs `name`, `name-1`, `name-2` … are trainings of
    one row. A run that has not finished all of the baseline's tasks is left out: successes are short and finish
    first."""
    passes: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = ":".join((row["store"], re.sub(r"-\d+$", "", row["run"]), row["agent"]))
            passes[name, row["run"]][row["task"]].append(row["outcome"] == "success")
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (name, _), tasks in passes.items():
        rows[name].append({task: np.mean(won) for task, won in tasks.items()})
    (own,) = rows[baseline]
    both = sorted(own)
    groups = sorted({task.partition("/")[0] for task in both})
    place = [groups.index(task.partition("/")[0]) for task in both]
    size = np.bincount(place, minlength=len(groups))
    for name, found in rows.items():
        whole = [rates for rates in found if own.keys() <= rates.keys()]
        if not whole:
            continue
        more = [[100 * (rates[task] - own[task]) for task in both] for rates in whole]
        gain = np.array([np.bincount(place, each, minlength=len(groups)) for each in more])
        success = 100 * np.mean([[rates[task] for task in both] for rates in whole])
        counts = f"{len(both)} tasks, {len(groups)} groups, {len(whole)} runs"
        sys.stdout.write(f"{name:40} {success:5.1f} % {mean(gain, size)} {counts}\n")


def families(path: Path) -> None:
    """Print each agent's gain over the first, from the table of tasks in a result of the ladder."""
    domains = json.loads(path.read_text("utf-8"))["domains"]
    family = {task: name for name, tasks in HELD_OUT.items() for task in tasks}
    rows = [row for row in domains["rows"] if row["domain"] in family]
    names = sorted({family[row["domain"]] for row in rows})
    tasks, wins = np.zeros(len(names)), np.zeros((len(names), len(domains["agents"])))
    for row in rows:
        place = names.index(family[row["domain"]])
        tasks[place] += row["tasks"]
        wins[place] += [cell["outcomes"].get("success", 0) for cell in row["cells"]]
    for agent, gain in zip(domains["agents"], 100 * (wins - wins[:, :1]).T, strict=True):
        sys.stdout.write(f"{agent:12} {mean(gain[None], tasks)} in {len(names)} families\n")


def mean(gain: NDArray[Any], size: NDArray[Any]) -> str:
    """The gain of trainings and groups [T, G], by the groups' numbers of tasks [G], with its 95 % interval if both are
    resampled."""
    rng = np.random.default_rng(0)
    groups = rng.integers(len(size), size=(DRAWS, len(size)))
    trained = gain[rng.integers(len(gain), size=(DRAWS, len(gain)))].mean(1)
    drawn = np.take_along_axis(trained, groups, 1).sum(1) / size[groups].sum(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{gain.mean(0).sum() / size.sum():+.1f} [{low:+.1f}, {high:+.1f}]"


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"write": write, "gains": gains, "families": families}
    programs[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
