"""Stored episodes for other tools: tables of steps, conversations and preference pairs, and ATIF trajectories."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from bestofq.core.decision import DECIDED, Episode
from bestofq.core.errors import DataError, InputError
from bestofq.core.observation import Screenshot, Split
from bestofq.interop import rows
from bestofq.interop.atif import trajectory
from bestofq.store.store import Store

PICTURES = "screenshots"


@dataclass(frozen=True, kw_only=True)
class Selected:
    """Which finished episodes; None: any."""

    run: str | None = None
    agent: str | None = None
    split: Split | None = None

    def episodes(self, store: Store) -> Iterator[Episode]:
        return store.episodes(run=self.run, agent=self.agent, split=self.split)

    def __str__(self) -> str:
        named = [f"{name} {value}" for name, value in vars(self).items() if value is not None]
        return f" of {', '.join(named)}" if named else ""


def export_steps(store: Store, selected: Selected, out: Path) -> int:
    """Write a row a step; how many. InputError, SetupError as `rows.write_rows`, DataError where there are none."""
    none = f"the store holds no steps{selected}: {_runs(store)}"
    return rows.write_rows(out, rows.step_rows(selected.episodes(store)), rows.STEPS, none=none)


def export_conversations(store: Store, selected: Selected, out: Path, *, failures: bool = False) -> int:
    """Write a row a successful episode, with `failures` each that was decided; how many. Errors as `export_steps`."""
    outcomes = DECIDED if failures else ("success",)
    episodes = (one for one in selected.episodes(store) if one.verdict.outcome in outcomes)
    which = "decided" if failures else "successful"
    none = f"the store holds no {which} episodes with a step{selected}: {_runs(store)}"
    return rows.write_rows(out, rows.conversation_rows(episodes), rows.CONVERSATIONS, none=none)


def export_preferences(
    store: Store, selected: Selected, out: Path, *, source: rows.Source, alpha: float, threshold: float
) -> int:
    """Write a row a pair (Agent Q, Eq. 10 and Algorithm 1); how many. Errors as `export_steps`."""
    if source == "trees":
        if selected.agent is not None:
            raise InputError("search trees are of no agent: leave out --agent, or take --source q")
        found = _of_trees(store, selected, alpha, threshold)
        hint = "grow trees by `bestofq search`, lower --threshold, or take what a Q-function scored (--source q)"
    else:
        found = rows.scored_pairs(selected.episodes(store), threshold=threshold)
        hint = "play episodes with the agent best-of-q, or lower --threshold"
    none = f"the store holds no pairs{selected} whose Q differ by {threshold:g}: {hint}"
    return rows.write_rows(out, found, rows.PREFERENCES, none=none)


def _of_trees(store: Store, selected: Selected, alpha: float, threshold: float) -> Iterator[rows.Row]:
    for run in store.runs():
        if selected.run in (None, run.name):
            trees = (tree for tree in store.trees.all(run.name) if selected.split in (None, tree.task.split))
            yield from rows.tree_pairs(run.name, trees, alpha=alpha, threshold=threshold)


def _runs(store: Store) -> str:
    return f"its runs are {', '.join(run.name for run in store.runs()) or 'none'}"


def export_atif(store: Store, selected: Selected, out: Path) -> int:
    """Write a trajectory an episode into a new folder, their pictures beside them; how many. InputError where it holds
    something or has no name of its own (`.`), DataError where there are no episodes. A folder of half the episodes is
    never left at `out`."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} holds something already: give --out a new folder")
    if not out.name:
        raise InputError(f"{out} cannot be put in place as a whole: give --out a new folder")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an export that was killed
    part.mkdir(parents=True)
    try:
        count = 0
        passes = _passes(store, selected)
        for episode in selected.episodes(store):
            count += 1
            pictures = {shot.sha256: _picture(store, shot, part) for shot in _shots(episode)}
            body = json.dumps(trajectory(episode, pictures, passes[episode.id]), ensure_ascii=False, indent=1)
            (part / f"{quote(episode.id, safe='')}.json").write_text(body + "\n", "utf-8")
        if not count:
            raise DataError(f"the store holds no finished episodes{selected}: {_runs(store)}")
        part.replace(out)
        return count
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _passes(store: Store, selected: Selected) -> dict[str, int]:
    """The pass of each episode by its id, counted on from run to run: read back as one run they stay apart."""
    passes: dict[str, int] = {}
    for _, some in groupby(store.summaries(**vars(selected)), lambda one: one.run):
        begin = max(passes.values(), default=-1) + 1
        passes |= {one.id: begin + one.repeat for one in some}
    return passes


def _shots(episode: Episode) -> list[Screenshot]:
    pages = [*(step.observation for step in episode.steps), *filter(None, [episode.final])]
    return [shot for page in pages if (shot := page.screenshot)]


def _picture(store: Store, shot: Screenshot, folder: Path) -> str:
    """The picture's file in the folder, by its name there."""
    name = Path(PICTURES) / store.screenshots.path(shot).name
    if not (folder / name).exists():
        (folder / PICTURES).mkdir(exist_ok=True)
        (folder / name).write_bytes(store.screenshots.load(shot).data)
    return name.as_posix()
