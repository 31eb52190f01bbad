"""What a dearer reading of the same texts brings: attention over tokens, the proposer's probability beside Q's inputs.

Learned from stored episodes and rated by the oracle on stored dev steps, whose products are in no training task.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from bestofq.config.agents import make_q_scorer
from bestofq.config.models import Models
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.protocols import Scorer
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.value import ValueModel
from bestofq.recipes.provenance import made_by
from bestofq.recipes.q_training import embed_items, training_progress
from bestofq.reports.recall import rated_shares, recall
from bestofq.reports.stats import Quantity
from bestofq.reports.table import Row, Table, columns
from bestofq.rollouts.transitions import tabulate
from bestofq.store.location import Location
from bestofq.store.store import Store
from experiments.attention import AttentionScorer, Lesson, learn, lesson, load, save
from experiments.dev_ranking import rescored
from experiments.prior_inputs import PriorInputScorer, taken_priors, with_priors
from experiments.ranking import OracleStep, oracle_steps

SEEDS = (0,)
ARMS = ("matched", "matched, with the prior", "attention", "attention, with the prior")


def run_inputs_study(
    models: Models, console: Console, *, store: Location, dev: Path, out: Path, results: Path, episodes: int
) -> None:
    """Each arm and seed once; what attends is kept in `out`. Writes `result.json` and `table.md` in `results`."""
    with Store.open(dev, read_only=True) as opened:
        steps = list(opened.episodes(run="dev"))
    rated: dict[str, list[OracleStep]] = {}
    with Store.open(store) as opened:
        taught = list(islice((one for one in opened.episodes() if one.verdict.outcome in DECIDED), episodes))
        read = cache(lambda: lesson(models, taught))
        console.print(f"{len(taught):,} episodes teach, {len(steps):,} dev episodes are ranked")
        for name in ARMS:
            rated[name] = []
            for seed in SEEDS:
                console.print(f"{name}, seed {seed}")
                config = models.settings.iql.model_copy(update={"seed": seed})
                scorer = _learned(name, models, taught, read, config, opened, out, console)
                chosen = asyncio.run(rescored(steps, scorer, at_once=1))
                rated[name] += oracle_steps(models, chosen, steps)
                _write(models, console, rated, results)


def _learned(
    name: str,
    models: Models,
    taught: Sequence[Episode],
    read: Callable[[], Lesson],
    config: IQLConfig,
    store: Store,
    out: Path,
    console: Console,
) -> Scorer:
    prior = name.endswith("prior")
    if name.startswith("attention"):
        file = out / f"attention{'-prior' * prior}-{config.seed}.pt"
        if not file.exists():
            save(learn(read(), config, console, prior=prior), file)
        return AttentionScorer(models, load(file))
    table = tabulate(taught, models.texts)
    vectors = embed_items(models, table.items, store, store.vectors(models.embedder.spec), console)
    data = table.transitions(vectors)
    data = with_priors(data, taken_priors(taught)) if prior else data
    with training_progress(config, data, console) as progress:
        iql: IQL = train_iql(data, config, on_step=progress)
    spec = models.embedder.spec
    found = ValueModel(
        iql.q, iql.v, embed=spec.model_copy(update={"dim": data.dim}), train_n=models.settings.n_candidates
    )
    return PriorInputScorer(found, models.embedder, models.texts) if prior else make_q_scorer(models, found)


def _write(models: Models, console: Console, rated: Mapping[str, Sequence[OracleStep]], results: Path) -> None:
    right: Mapping[str, Quantity] = {name: rated_shares(steps)["right"] for name, steps in rated.items()}
    counted = recall(ARMS[0], rated[ARMS[0]])
    base = right[ARMS[0]]
    cells = [(name, one.measure, None if one is base else one.minus(base)) for name, one in right.items()]
    table = Table(
        name="inputs",
        title="Right choices at contested dev steps",
        columns=columns("arm", "right choice %", "difference %", signed=["difference"]),
        rows=tuple(Row(cells=row) for row in cells),
        notes=(f"Of {counted.contested // len(SEEDS):,} steps, over {len(SEEDS)} training seeds; 95 % over tasks.",),
    )
    console.print(table)
    known: dict[str, Any] = {"first": counted.regret_first.value, "chance": counted.regret_chance.value}
    known = {name: None if value is None else 1 - value for name, value in known.items()}
    results.mkdir(parents=True, exist_ok=True)
    found = made_by(models.settings) | {
        "contested": counted.contested // len(SEEDS),
        **known,
        "table": table.model_dump(mode="json"),
    }
    (results / "result.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (results / "table.md").write_text(table.to_markdown(), "utf-8")
