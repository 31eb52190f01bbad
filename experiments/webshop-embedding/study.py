"""What of an action should Q read? Variants of the embedding, on the same episodes and ranked on the same dev steps.

    python experiments/webshop-embedding/study.py [--config FILE] [--out FOLDER]

collects two passes over the training tasks and one over dev tasks in FOLDER; writes `result.json` and `table.md` beside
this file.
"""

import asyncio
import json
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console

from bestofq.agents.scorers.learned import QScorer
from bestofq.cli.config import load_config
from bestofq.cli.experiment import commit
from bestofq.core.embedding import Context, Pooling
from bestofq.learning.iql import train_iql
from bestofq.learning.value import ValueModel
from bestofq.recipes.best_of_q import SEED_RUN, collect, transitions
from bestofq.recipes.parts import Parts
from bestofq.recipes.ranking import ranking, rescored
from bestofq.recipes.settings import BestOfQSettings
from bestofq.recipes.worlds import open_world
from bestofq.store.store import Store

HERE = Path(__file__).parent
PASSES = 2  # over the training tasks
DEV_TASKS = 200
SEEDS = (0, 1)  # of IQL


class Variant(NamedTuple):
    """One EmbedSpec; the first is the paper's (A.3)."""

    context: Context
    pooling: Pooling
    layer: int

    def __str__(self) -> str:
        return f"{self.context}, {self.pooling}, layer {self.layer}"


VARIANTS = (
    Variant("alone", "mean", -1),
    Variant("alone", "mean", 3),
    Variant("state", "mean", -1),
    Variant("review", "mean", -1),
    Variant("review", "last", -1),
)


async def study(settings: BestOfQSettings, out: Path, console: Console) -> list[dict[str, object]]:
    """A row a variant: how often Q's choice was right among the steps that held right and wrong candidates."""
    rows: list[dict[str, object]] = []
    parts = Parts(settings)
    with Store.open(out) as store:
        async with open_world(parts) as world:
            await collect(parts, world, store, SEED_RUN, "explore", console, repeats=PASSES)
            await collect(parts, world, store, "study", "random", console, repeats=1, split="dev", limit=DEV_TASKS)
        episodes = list(store.episodes(run="study", status="finished"))
        for variant in VARIANTS:
            ways = {
                "embed_context": variant.context,
                "embed_pooling": variant.pooling,
                "embed_layer": variant.layer,
            }
            changed = settings.model.model_copy(update=ways)
            reading = Parts(settings.model_copy(update={"model": changed}))
            began = time.monotonic()
            data = transitions(reading, store, [SEED_RUN], console)
            embedded = time.monotonic() - began
            right = []
            for seed in SEEDS:
                iql = train_iql(data, settings.iql.model_copy(update={"seed": seed}))
                values = ValueModel(iql.q, iql.v, embed=reading.embedder.spec, train_n=settings.n_candidates)
                ranks = ranking(
                    await rescored(episodes, QScorer(values, reading.embedder, reading.texts)), reading.suite
                )
                right.append(ranks["all"].contested_chosen)
            row = {
                "variant": str(variant),
                "right": float(np.mean(right)),
                "right_by_seed": right,
                "last_seed": {kind: asdict(rank) for kind, rank in ranks.items()},
                "embedding_seconds": round(embedded, 1),
                "transitions": len(data),
            }
            console.print(f"{variant}: {100 * np.mean(right):.1f} %")
            rows.append(row)
    return rows


def main(
    config: Annotated[Path, typer.Option(help="settings")] = HERE.parent / "webshop-pocket" / "config.toml",
    out: Annotated[Path, typer.Option(help="folder of the episodes")] = Path("runs/embedding"),
) -> None:
    settings = load_config(BestOfQSettings, config)
    rows = asyncio.run(study(settings, out, Console()))
    result = {
        "command": "python experiments/webshop-embedding/study.py",
        "commit": commit(),
        "machine": {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()},
        "passes": PASSES,
        "train_tasks": settings.suite.train_tasks,
        "dev_tasks": DEV_TASKS,
        "iql": settings.iql.model_dump(mode="json"),
        "rows": rows,
    }
    (HERE / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (HERE / "table.md").write_text(table(rows), "utf-8")


def table(rows: list[dict[str, object]]) -> str:
    """Markdown, with the proposer's own first candidate and a uniform choice for comparison."""
    reference = rows[0]["last_seed"]["all"]  # type: ignore[index]
    lines = [
        "| context, pooling, layer | right choice % | by seed |",
        "| --- | --: | --- |",
        f"| (the proposer's first) | {100 * reference['contested_first']:.1f} | |",
        f"| (a uniform choice) | {100 * reference['contested_chance']:.1f} | |",
    ]
    for row in rows:
        seeds = ", ".join(f"{100 * r:.1f}" for r in row["right_by_seed"])  # type: ignore[attr-defined]
        lines.append(f"| {row['variant']} | {100 * row['right']:.1f} | {seeds} |")  # type: ignore[operator]
    lines.append(f"\nOf {reference['contested']} dev steps that held right and wrong candidates.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
