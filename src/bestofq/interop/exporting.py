"""Stored episodes for other tools: tables of steps, conversations and preference pairs, and ATIF trajectories."""

import json
import shutil
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from bestofq.core.decision import DECIDED
from bestofq.core.errors import DataError, InputError
from bestofq.core.observation import Screenshot
from bestofq.interop import rows
from bestofq.interop.atif import trajectory
from bestofq.store.store import Store, Which

PICTURES = "screenshots"


def export_steps(store: Store, selected: Which, out: Path) -> int:
    """Write a row for each step and return their number. Errors as `rows.write_rows`."""
    steps = rows.step_rows(store.episodes(**selected))
    return rows.write_rows(out, steps, rows.STEPS, none=_none(store, selected, "steps"))


def export_conversations(store: Store, selected: Which, out: Path, *, failures: bool = False) -> int:
    """Write a row for each successful episode; with `failures` for each decided one. Errors as `rows.write_rows`."""
    which, outcomes = ("decided", DECIDED) if failures else ("successful", ("success",))
    episodes = (episode for episode in store.episodes(**selected) if episode.verdict.outcome in outcomes)
    none = _none(store, selected, f"{which} episodes with a step")
    return rows.write_rows(out, rows.conversation_rows(episodes), rows.CONVERSATIONS, none=none)


def export_preferences(store: Store, selected: Which, out: Path, *, alpha: float, threshold: float) -> int:
    """Write a row for each pair (Agent Q, Eq. 10 and Algorithm 1). Errors as `rows.write_rows`; InputError on an agent,
    which a search tree does not have."""
    if selected.get("agent") is not None:
        raise InputError("a search tree has no agent: leave out --agent")
    pairs = (
        row
        for run in store.runs()
        if selected.get("run") in (None, run.name)
        for tree in store.trees.all(run.name)
        if selected.get("split") in (None, tree.task.split)
        for row in rows.tree_pairs(run.name, tree, alpha=alpha, threshold=threshold)
    )
    hint = "grow trees by `bestofq search`, or lower --threshold"
    none = f"the store holds no pairs{_describe(selected)} whose Q-values differ by at least {threshold:g}: {hint}"
    return rows.write_rows(out, pairs, rows.PREFERENCES, none=none)


def _none(store: Store, selected: Which, what: str) -> str:
    runs = ", ".join(run.name for run in store.runs()) or "none"
    return f"the store holds no {what}{_describe(selected)}: its runs are {runs}"


def _describe(selected: Which) -> str:
    named = ", ".join(f"{name} {value}" for name, value in selected.items() if value is not None)
    return f" of {named}" if named else ""


def export_atif(store: Store, selected: Which, out: Path) -> int:
    """Write a trajectory for each episode into a new folder, with its pictures, and return their number. InputError if
    it holds something or has no name of its own (`.`), DataError if there are no episodes. A folder of half the
    episodes is never left at `out`."""
    if not out.name or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise InputError(f"{out} holds something already, or has no name of its own: give --out a new folder")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an export that was killed
    part.mkdir(parents=True)
    try:
        passes: dict[str, int] = {}  # counted on from run to run: read back as one run they stay apart
        for _, episodes in groupby(store.summaries(**selected), lambda episode: episode.run):
            begin = max(passes.values(), default=-1) + 1
            passes |= {episode.id: begin + episode.repeat for episode in episodes}
        for episode in store.episodes(**selected):
            pages = [*(step.observation for step in episode.steps), *filter(None, [episode.final])]
            pictures = {shot.sha256: _picture(store, shot, part) for page in pages if (shot := page.screenshot)}
            body = json.dumps(trajectory(episode, pictures, passes[episode.id]), ensure_ascii=False, indent=1)
            (part / f"{quote(episode.id, safe='')}.json").write_text(body + "\n", "utf-8")
        if not passes:
            raise DataError(_none(store, selected, "finished episodes"))
        part.replace(out)
        return len(passes)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _picture(store: Store, shot: Screenshot, folder: Path) -> str:
    name = Path(PICTURES) / store.screenshots.path(shot).name
    if not (folder / name).exists():
        (folder / PICTURES).mkdir(exist_ok=True)
        (folder / name).write_bytes(store.screenshots.load(shot).data)
    return name.as_posix()
