"""The tables of README.md from the rows of `study`, and the figure: gain kept against harm avoided, over thresholds.

python -m experiments.gate.summary
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bestofq.reports.stats import PairedDifference
from bestofq.reports.svg import TEMPLATES, Plot, figure
from bestofq.reports.table import Cell, Table, columns
from bestofq.rollouts.console import console

HERE = Path("experiments/gate")
FIGURE = """{% extends "figure.jinja" %}{% import "shapes.jinja" as draw %}{% block shapes %}
{{ draw.rows(plot, ticks) }}{{ draw.columns(plot, ticks, "share of the gain that is kept") }}
{{ draw.text(4, 16, "share of the harm that is avoided") }}{{ draw.curve(plot, points, "diagonal") }}
{% for gain, harm, name in dots %}{{ draw.dot(plot, gain, harm, "s1", name, 4.5) }}{% endfor %}
{% for gain, harm, name in dots %}{{ draw.text(plot.at_x(gain) + 8, plot.at_y(harm) + 4, name, "name") }}{% endfor %}
{% endblock %}"""


def difference(points: list[float]) -> PairedDifference:
    return PairedDifference(mean=points[0], low=points[1], high=points[2], tasks=0)


def main() -> None:
    files = [HERE / f"{env}.json" for env in ("demo", "shop", "scripted")]
    rows: list[dict[str, Any]] = [row for file in files if file.exists() for row in json.loads(file.read_text("utf-8"))]
    shut = {"played": [0.0, 0.0, 0.0], "success": None}
    lines, errors = list[tuple[Cell, ...]](), defaultdict[str, list[float]](list)
    for row in rows:
        gated, predicted = row.get("gated", shut), row["predicted"]
        open_gate = [gated["played"], predicted["gated"]] if "gated" in row else []
        found = map(difference, (row["argmax"]["played"], predicted["argmax"], *open_gate))
        success = (row[kind]["success"] for kind in ("first", "argmax"))
        lines.append((row["rung"], row["agent"], *success, *found, *(() if open_gate else ("shut", "0"))))
        for kind in ("argmax", "gated") if "gated" in row else ("argmax",):
            errors[f"{row['rung']}, {kind}"].append(predicted[kind][0] - row[kind]["played"][0])
    signed = [f"{kind}, {how}" for kind in ("argmax", "gated") for how in ("played", "predicted")]
    heads = columns("tasks", "agent", "first %", "argmax %", *signed, signed=signed)
    off = [(case, f"{np.mean(np.abs(values)):.1f} ({np.mean(values):+.1f})") for case, values in errors.items()]
    for table in (
        Table.of("gates", "Gates", heads, lines),
        Table.of("errors", "Errors", columns("tasks, agents", "mean error (bias)"), off),
    ):
        console.print(table.to_markdown(), soft_wrap=True, markup=False)
    curves = [(row["argmax"]["played"][0] > 0, np.array([lift for _, lift in row["curve"]])) for row in rows]
    gain, harm = (np.sum([curve for helps, curve in curves if helps is sign], axis=0) for sign in (True, False))
    kept, avoided = gain / gain[0], 1 - harm / harm[0]
    labels = [f"{100 * share:.0f} % of wishes" for share, _ in rows[0]["curve"]]
    dots = [(k, a, label) for k, a, label in zip(kept, avoided, labels, strict=True)][:-1:2]
    behind = [[row.get("gated", shut)["played"][0], row["argmax"]["played"][0]] for row in rows]
    own = [sum(gated for gated, plain in behind if (plain > 0) is sign) for sign in (True, False)]
    whole = [sum(plain for _, plain in behind if (plain > 0) is sign) for sign in (True, False)]
    dots.append((own[0] / whole[0], 1 - own[1] / whole[1], "the calibrated gate, played"))
    ticks = [(each / 100, f"{each} %") for each in range(0, 101, 20)]
    svg = figure(
        TEMPLATES.from_string(FIGURE),
        "Gain kept against harm avoided, over thresholds of the margin",
        plot=Plot(x=(0, 1.25), y=(0, 1.1), height=420),
        ticks=ticks,
        points=[*zip(kept, avoided, strict=True)],
        dots=dots,
    )
    (HERE / "result.svg").write_text(svg, encoding="utf-8")
    console.print(f"gain kept {own[0] / whole[0]:.2f}, harm avoided {1 - own[1] / whole[1]:.2f}")


if __name__ == "__main__":
    main()
