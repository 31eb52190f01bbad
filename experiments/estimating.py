"""What `bestofq estimate` says of Q-functions from held-out logs, beside what playing them then measures.

All Q-functions play with the same draws, in one process: what the model proposes on a page that several of them come to
is computed once.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from bestofq.cli.config import load_config
from bestofq.cli.writing import write_json
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.language import Generation, Request
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Transitions
from bestofq.learning.checkpoint import export_value, load_value
from bestofq.learning.config import CARD, IQLConfig
from bestofq.learning.iql import train_iql
from bestofq.models.local import LocalModel
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.estimate import logs_of, rank_logs
from bestofq.recipes.identity import made_by
from bestofq.recipes.q_training import episodes_of, select_episodes, train_q, transitions_of
from bestofq.reports import off_policy
from bestofq.reports.costs import Label, spread_labels
from bestofq.reports.stats import PairedDifference, Tries, attempts_of, paired_difference, success_rate
from bestofq.reports.svg import TEMPLATES, Plot, figure, nice_ticks
from bestofq.reports.table import Cell, Table, columns
from bestofq.rollouts.console import console
from bestofq.store.store import Store

CONFIG, RESULTS = Path("experiments/ladder/shop.toml"), Path(__file__).parent / "estimate"
LEARNED, HELD_OUT, PLAYED = (Path("runs") / f"estimate-{name}" for name in ("learned", "held-out", "played"))
GOALS = "P??00[0-3]?-2"
"""Other goals for the same products: no Q learned from them."""
TASKS = 100  # of those, that are played
WHITENED = ("iql.network.hidden=[512,256]", "iql.discount=0.95", "iql.network.scaling=whiten", "iql.steps=400")
MATCHED = (*WHITENED, "model.embed.matches=true")
Change = Callable[[Transitions, IQLConfig], Transitions]
"""What is made of a training set before it is learned from."""


def reversed_outcomes(data: Transitions, config: IQLConfig) -> Transitions:
    """Failures are rewarded and successes are not: a Q that harms."""
    return replace(data, reward=np.where(data.terminal, 1 - data.reward, 0).astype(np.float32))


def shuffled_outcomes(data: Transitions, config: IQLConfig) -> Transitions:
    """The episodes' outcomes are dealt out anew among them: a Q that knows nothing."""
    reward = data.reward.copy()
    reward[data.terminal] = np.random.default_rng(config.seed).permutation(reward[data.terminal])
    return replace(data, reward=reward)


def monte_carlo(data: Transitions, config: IQLConfig) -> Transitions:
    """Every step ends with the discounted return of its episode: no bootstrapping."""
    steps, last = np.arange(len(data)), np.flatnonzero(data.terminal)
    ends = last[np.searchsorted(last, steps)]  # [T] of each step's episode; episodes lie one after the other
    returns = data.reward[ends] * config.discount ** (ends - steps)
    return replace(data, reward=returns.astype(np.float32), terminal=np.ones_like(data.terminal))


class Made(NamedTuple):
    """How a Q-function is made: from so many episodes (None: all), with settings."""

    settings: Sequence[str]
    episodes: int | None = None
    change: Change | None = None


MATCHING: Mapping[str, Made] = {
    "matched": Made(MATCHED),
    "reversed": Made(MATCHED, change=reversed_outcomes),
    "shuffled": Made(MATCHED, change=shuffled_outcomes),
    "matched-100-episodes": Made(MATCHED, 100),
    "matched-20-steps": Made((*MATCHED, "iql.steps=20")),
    "without-goal": Made((*MATCHED, 'iql.network.q_without=["task"]')),
    "matched-seed-1": Made((*MATCHED, "iql.seed=1")),
    "matched-300-episodes": Made(MATCHED, 300),
    "monte-carlo": Made(MATCHED, change=monte_carlo),
}
PLAIN: Mapping[str, Made] = {
    "paper": Made(("iql.steps=400",)),
    "whitened": Made(WHITENED),
    "small-network": Made(("iql.network.hidden=[512,256]", "iql.discount=0.95", "iql.steps=400")),
    "whitened-100-episodes": Made(WHITENED, 100),
    "whitened-seed-1": Made((*WHITENED, "iql.seed=1")),
}
GROUPS = {"matching": MATCHING, "plain": PLAIN}


def make(group: Mapping[str, Made]) -> None:
    """Train and play all of a group."""
    models = _models(next(iter(group.values())))
    with Store.open(LEARNED) as store:
        train(models, store, group)
    _remembering(models.local)
    asyncio.run(play(models, group))


def _models(made: Made) -> Models:
    return Models(load_config(BestOfQSettings, CONFIG, made.settings))


def train(models: Models, store: Store, group: Mapping[str, Made]) -> None:
    """Each in a folder of its name; what lies there already is used."""
    for name, made in group.items():
        episodes, iql = select_episodes(store, ["seed"], made.episodes), _models(made).settings.iql
        if made.change is None:
            train_q(LEARNED / name, models, store, episodes, iql=iql)
        elif not (LEARNED / name / CARD).exists():
            data = made.change(transitions_of(models, episodes_of(store, episodes), store), iql)
            spec, n = models.embedder.spec, models.settings.n_candidates
            export_value(LEARNED / name, train_iql(data, iql), embed=spec, train_n=n)


def _remembering(model: LocalModel) -> None:
    """Makes the model answer a request that it has been asked before with what it said."""
    generate, said = model.generate, dict[Request, asyncio.Task[Generation]]()

    async def remembered(request: Request) -> Generation:
        if request not in said:
            said[request] = asyncio.ensure_future(generate(request))
        return await said[request]

    model.generate = remembered  # type: ignore[method-assign]


async def play(models: Models, group: Mapping[str, Made]) -> None:
    """Best-of-Q with each on the same tasks with the same draws, each in a store of its name; and prompting."""
    goals = models.settings.suite.model_copy(update={"only": GOALS})
    playing = Models(models.settings.model_copy(update={"suite": goals}), models.budget)
    for name in ("local", "embedder"):
        playing.__dict__[name] = getattr(models, name)
    with ExitStack() as opened:
        async with open_suite(playing) as suite:

            def played(name: str, kind: Play) -> "asyncio.Future[object]":
                store = opened.enter_context(Store.open(PLAYED / name))
                return asyncio.ensure_future(collect(playing, suite, store, "played", kind))

            values = {name: load_value(LEARNED / name, embed=models.embedder.spec) for name in group}
            plays = {name: Play("best-of-q", values=one, split="train", limit=TASKS) for name, one in values.items()}
            if "matched" in group:
                plays["prompting"] = Play("prompting", split="train", limit=TASKS)
            await asyncio.gather(*(played(name, kind) for name, kind in plays.items()))
    console.print(f"played: {', '.join(group)}")


class Predicted(FrozenModel):
    """What held-out logs say of one Q-function."""

    auc: float
    lift: PairedDifference | None = None  # over the first candidate, by `off_policy.local_approximation`


class Judged(FrozenModel):
    """That, and what playing it measured."""

    name: str
    predicted: Predicted
    success: float
    measured: PairedDifference


def judge(name: str, log: LoggedChoices, ours: Tries, theirs: Tries) -> Judged:
    """Hold what the log says against what was played. DataError if that and the first candidate share no task."""
    if (measured := paired_difference(ours, theirs)) is None:
        raise DataError(f"{name} and prompting played no task in common: run experiments/estimate/run.sh")
    lift = off_policy.local_approximation(log, off_policy.greedy(log), off_policy.first(log)).difference
    predicted = Predicted(auc=off_policy.auc(log).value or 0.5, lift=lift)
    return Judged(name=name, predicted=predicted, success=success_rate(ours).mean, measured=measured)


def learned() -> list[Judged]:
    """All Q-functions that were made."""
    found = []
    for group in GROUPS.values():
        models = _models(next(iter(group.values())))
        with Store.open(HELD_OUT) as store:
            logs = logs_of(models, store, store.summaries(run="seed"))
        for name in group:
            log = rank_logs(logs, load_value(LEARNED / name, embed=models.embedder.spec))
            found.append(judge(name, log, _attempts(name), _attempts("prompting")))
    return found


def _attempts(name: str) -> Tries:
    with Store.open(PLAYED / name, read_only=True) as store:
        return attempts_of(store.summaries())


def score_of(judged: Sequence[Judged]) -> dict[str, float]:
    """How well the estimate told the differences of all Q-functions.

    `error`: the mean of |predicted - measured|. `width`: that of the intervals. `covered`: predicted and measured
    differ by no more than both intervals allow. `deploy`, `harmful`: verdicts "deploy" and "do not deploy", and how
    many of them were right: measured to gain, and not to gain.
    """
    pairs = [(lift, one.measured) for one in judged if (lift := one.predicted.lift) is not None]
    told, came = (np.array([pair[at].mean for pair in pairs]) for at in (0, 1))
    half = [((a.high - a.low) / 2, (b.high - b.low) / 2) for a, b in pairs]
    deploy, harmful = ([b.mean for a, b in pairs if a.clear and (a.mean > 0) == gains] for gains in (True, False))
    return {
        "correlation": float(np.corrcoef(told, came)[0, 1]),
        "error": float(np.abs(told - came).mean()),
        "width": float(np.mean([2 * a for a, _ in half])),
        "covered": sum(bool(abs(x - y) <= np.hypot(a, b)) for x, y, (a, b) in zip(told, came, half, strict=True)),
        "deploy": len(deploy),
        "deploy_right": sum(gain > 0 for gain in deploy),
        "harmful": len(harmful),
        "harmful_right": sum(gain <= 0 for gain in harmful),
    }


def write(name: str, found: Sequence[Judged]) -> None:
    """`NAME.json`, `NAME.md` and the picture `NAME.svg`."""
    judged = sorted(found, key=lambda one: one.measured.mean)
    score = score_of(judged)
    gains = [one.measured.mean for one in judged]
    result = {
        **made_by(load_config(BestOfQSettings, CONFIG, ())),
        "score": score,
        "auc": float(np.corrcoef([one.predicted.auc for one in judged], gains)[0, 1]),
        "rankers": [one.model_dump() for one in judged],
    }
    write_json(RESULTS / f"{name}.json", result)
    tables = score_table(score, len(judged)).to_markdown(), q_table(judged).to_markdown()
    (RESULTS / f"{name}.md").write_text("\n".join(tables), "utf-8")
    (RESULTS / f"{name}.svg").write_text(predicted_svg(judged), "utf-8")


def score_table(score: Mapping[str, float], number: int) -> Table:
    heads = ("correlation", "error %", "width %", "covered", "deploy, right", "do not deploy, right")
    verdicts = (f"{score[f'{verdict}_right']} of {score[verdict]}" for verdict in ("deploy", "harmful"))
    means = (score[name] for name in ("correlation", "error", "width"))
    cells: tuple[Cell, ...] = (*means, f"{score['covered']} of {number}", *verdicts)
    return Table.of("score", "The estimate", columns(*heads, digits=2), [cells])


def q_table(judged: Sequence[Judged]) -> Table:
    rows = [(one.name, one.predicted.auc, one.success, one.measured, one.predicted.lift) for one in judged]
    heads = (
        *columns("Q", "AUC", digits=2),
        *columns("success %", "measured %", "predicted %", signed=["measured", "predicted"]),
    )
    return Table.of("q", "Q-functions", heads, rows)


def predicted_svg(judged: Sequence[Judged]) -> Markup:
    """Predicted by local approximation against measured; red where the verdict was wrong."""
    told = [(one.name, one.measured, lift) for one in judged if (lift := one.predicted.lift) is not None]
    points = [
        {"name": name, "measured": ours, "predicted": lift, "right": not lift.clear or lift.mean * ours.mean > 0}
        for name, ours, lift in told
    ]
    ends = [end for _, *parts in told for part in parts for end in (part.low, part.high)]
    low, high = 100 * min(ends), 100 * max(ends)
    ticks = [(tick / 100, f"{tick:+.0f}") for tick in nice_ticks(low, high)]
    span = (ticks[0][0], ticks[-1][0])
    plot = Plot(x=span, y=span, height=460)
    most = 0.6 * plot.width
    labels = [Label.at(plot.at_x(ours.mean), plot.at_y(lift.mean), name, most) for name, ours, lift in told]
    return figure(
        TEMPLATES.from_string((RESULTS / "predicted.jinja").read_text("utf-8")),
        "Predicted and measured difference to the first candidate",
        plot=plot,
        labels=spread_labels(labels),
        ticks=ticks,
        diagonal=[(end, end) for end in span],
        points=points,
    )
