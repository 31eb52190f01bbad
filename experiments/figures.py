"""`python -m experiments figures`: every committed picture again, from the results that lie beside it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestofq.cli.writing import write_json
from bestofq.reports.figures import bars_svg
from bestofq.reports.naming import place
from bestofq.reports.rows import BASELINE
from bestofq.reports.stats import Measure
from bestofq.reports.svg import STYLE
from bestofq.rollouts.console import console
from experiments.ablation_table import ArmRow, ablation_pictures
from experiments.agent_q.methods import OVER, Methods, calls_svg
from experiments.estimating import Judged, predicted_svg
from experiments.learning_curve import CurvePoint, learning_curve_svg


def figures() -> None:
    """Draw every committed picture again, from the results beside it."""
    for path, picture in drawn(Path("experiments")):
        if not path.exists() or path.read_text("utf-8") != picture:
            path.write_text(picture, "utf-8")
            console.print(f"drawn: {path}")


def drawn(experiments: Path) -> Iterator[tuple[Path, str]]:
    """The pictures of all studies, with their files: drawn from the results where these suffice, else restyled."""
    left = set(experiments.glob("**/*.svg"))
    for result in sorted(experiments.glob("**/result.json")):
        found = json.loads(result.read_text("utf-8"))
        for name, picture in draw_pictures(result.parent, found).items():
            yield (file := result.with_name(name)), picture
            left.discard(file)
    for file in sorted(left):
        yield file, re.sub("<style>.*?</style>", f"<style>{STYLE}</style>", file.read_text("utf-8"), flags=re.S)


def write_results(folder: Path, result: Mapping[str, Any], tables: str) -> None:
    """Write a study's `result.json` and `table.md`, and draw its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", result)
    (folder / "table.md").write_text(tables, "utf-8")
    for name, picture in draw_pictures(folder, result).items():
        (folder / name).write_text(picture, "utf-8")
    console.print(f"written: {folder / 'result.json'}")


def draw_pictures(folder: Path, found: Mapping[str, Any]) -> dict[str, str]:
    """Draw the pictures of a folder's `result.json`, by their names."""
    match found:
        case {"arms": arms}:
            return ablation_pictures(found["study"]["title"], [ArmRow.model_validate(arm) for arm in arms])
        case {"test": {"at_once": _}}:
            methods = Methods.model_validate(found["test"])
            bars = [(row.agent, Measure(value=row.success.mean, interval=row.interval)) for row in methods.rows]
            success = bars_svg(bars, baseline=methods.baseline, over=OVER)
            return {"success.svg": success, "calls.svg": calls_svg(methods)}
        case {"test": {"rows": rows}} | {"table": {"rows": [{"outcomes": _}, *_] as rows}}:
            return agent_pictures(found, [(row["agent"], row["success"]["mean"], row["interval"]) for row in rows])
        case {"columns": _, "rows": [{"cells": [_, {"value": _}, *_]}, *_] as rows}:  # a table of `bestofq report`
            cells = [row["cells"] for row in rows]
            return agent_pictures(found, [(name, one["value"], one["interval"]) for name, one, *_ in cells])
        case {"rankers": [{"predicted": _}, *_]}:
            parts = [json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("result", "noisy")]
            judged = ([Judged.model_validate(one) for one in part["rankers"]] for part in parts)
            return dict(zip(("result.svg", "noisy.svg"), map(predicted_svg, judged), strict=True))
    return {}


def agent_pictures(found: Mapping[str, Any], rows: list[tuple[str, float | None, Any]]) -> dict[str, str]:
    """Success of each agent, and the learning curve where there is one."""
    baseline = BASELINE if any(name == BASELINE for name, _, _ in rows) else None
    ordered = sorted(rows, key=lambda row: (row[0] != baseline, *place(row[0])))
    bars = [(name, Measure(value=mean, interval=interval)) for name, mean, interval in ordered]
    pictures: dict[str, str] = {"success.svg": bars_svg(bars, baseline=baseline)}
    points = [CurvePoint.model_validate(p) for p in found.get("dev_curve", ()) if p["low"] is not None]
    if points:  # older results have no intervals: their curve is restyled only
        before = found["dev_prompting"]
        pictures["curve.svg"] = learning_curve_svg(points, baseline=None if before is None else (BASELINE, before))
    return pictures
