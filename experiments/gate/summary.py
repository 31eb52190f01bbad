"""The tables of README.md from the rows of `study`, and the figure: gain kept against harm avoided, over thresholds.

python -m experiments.gate.summary
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bestofq.reports.svg import TEMPLATES, Plot, figure
from bestofq.rollouts.console import console

HERE = Path("experiments/gate")
FIGURE = """{% extends "figure.jinja" %}{% import "shapes.jinja" as draw %}{% block shapes %}
{{ draw.rows(plot, ticks) }}{{ draw.columns(plot, ticks, "share of the gain that is kept") }}
{{ draw.text(4, 16, "share of the harm that is avoided") }}{{ draw.curve(plot, points, "diagonal") }}
{% for gain, harm, name in dots %}{{ draw.dot(plot, gain, harm, "s1", name, 4.5) }}{% endfor %}
{% for gain, harm, name in dots %}{{ draw.text(plot.at_x(gain) + 8, plot.at_y(harm) + 4, name, "name") }}{% endfor %}
{% endblock %}"""


def show(points: list[float] | None) -> str:
    return "–" if points is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*points)


def error(values: list[float]) -> str:
    return f"{np.mean(np.abs(values)):.1f} ({np.mean(values):+.1f})" if values else "–"


def table(head: str, rows: list[list[str]]) -> None:
    columns = head.split(" | ")
    lines = [columns, ["---", *["--:"] * (len(columns) - 1)], *rows]
    console.print("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n", soft_wrap=True, markup=False)


def main() -> None:
    files = [HERE / f"{env}.json" for env in ("demo", "shop", "scripted")]
    rows: list[dict[str, Any]] = [row for file in files if file.exists() for row in json.loads(file.read_text("utf-8"))]
    shut = {"played": [0.0, 0.0, 0.0], "success": None}
    lines, errors = [], defaultdict[str, list[float]](list)
    for row in rows:
        gated, predicted = row.get("gated", shut), row["predicted"]
        first, argmax = (f"{100 * row[kind]['success']:.1f}" for kind in ("first", "argmax"))
        names = [row["rung"], row["agent"], first, argmax, show(row["argmax"]["played"]), show(predicted["argmax"])]
        lines.append(
            [*names, *((show(gated["played"]), show(predicted["gated"])) if "gated" in row else ("shut", "0"))]
        )
        for kind in ("argmax", "gated") if "gated" in row else ("argmax",):
            errors[f"{row['rung']}, {kind}"].append(predicted[kind][0] - row[kind]["played"][0])
    table(
        "tasks | agent | first % | argmax % | argmax, played | argmax, predicted | gated, played | gated, predicted",
        lines,
    )
    table("tasks, agents | mean error (bias)", [[case, error(values)] for case, values in errors.items()])
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
