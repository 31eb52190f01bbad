"""How well candidates are ranked, counted against an oracle: the paper's split of failures (4.5, Fig. 3), exactly.

For each stored step: was a right action among the candidates, and was it taken? A diagnostic: no agent reads it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from bestofq.cli.options import RUNS, CommonOptions, Config, Data, Set, Stored
from bestofq.cli.shared import models_of
from bestofq.config.models import Models
from bestofq.core.actions import identity
from bestofq.core.decision import Candidate, Decision, Episode, State, state_at
from bestofq.core.errors import DataError, InputError
from bestofq.core.protocols import Suite
from bestofq.envs.miniwob.suite import MiniWob
from bestofq.envs.suites import make_suite
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection, read_rows
from bestofq.reports.table import Table, columns
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.viewer.export import export
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.local_site.text import TextEnv, at_once
from bestofq_sites.quirks.suite import Quirks
from bestofq_sites.webshop.pages import from_url
from bestofq_sites.webshop.suite import WebShop
from experiments.oracles.booking import BookingOracle
from experiments.oracles.miniwob.solvers import SOLVERS, advise
from experiments.oracles.miniwob.view import Unsolved
from experiments.oracles.quirks import QuirksOracle
from experiments.oracles.webshop import Oracle, is_right
from experiments.recall import add_recall, rated_counts, recall_table


class OracleStep(NamedTuple):
    """`Rated` by an oracle."""

    kind: str  # of page or task
    task: tuple[str, str]  # suite and id
    good: tuple[bool, ...]
    chosen: int


Ranking = Mapping[str, float | None]
"""Of steps of one kind of page: how many (`steps`), and the share with a right action among the candidates
(`proposed`). Of these the shares in which the agent's choice (`chosen`), the proposer's first (`first`) or a uniform
choice (`chance`) is right. The same of the `contested` steps, which hold right and wrong actions. None of no step."""


def by_kind(steps: Iterable[OracleStep]) -> Mapping[str, Ranking]:
    """A `Ranking` of each kind of page or task, and of `all`."""
    kinds: dict[str, list[OracleStep]] = defaultdict(list)
    for step in steps:
        kinds[step.kind].append(step)
        kinds["all"].append(step)
    return {kind: _ranking(kinds[kind]) for kind in sorted(kinds)}


def _ranking(rated: Sequence[OracleStep]) -> Ranking:
    """What `recall` counts. Only at contested steps is anything lost: where all are right, any choice is."""
    steps, held, _, contested, *lost = np.sum([*rated_counts(rated).values()], axis=0).tolist()

    def shares(whole: float, prefix: str = "") -> Ranking:
        names = (f"{prefix}{name}" for name in ("chosen", "first", "chance"))
        return {name: 1 - part / whole if whole else None for name, part in zip(names, lost, strict=True)}

    found: dict[str, float | None] = {"steps": int(steps), "proposed": held / steps, **shares(held)}
    return {**found, "contested": int(contested), **shares(contested, "contested_")}


def oracle_steps(
    models: Models, episodes: Iterable[Episode], played: Sequence[Episode] | None = None
) -> Iterator[OracleStep]:
    """The steps of the settings' suite that its oracle can rate; none where no oracle knows it. `played`: the same
    episodes with the actions that were taken, where `episodes` hold other choices."""
    suite = make_suite(models.settings.suite)
    if isinstance(suite, LocalSuite) and isinstance(suite.rules, Quirks):
        yield from _quirks(zip(episodes, played, strict=True) if played else ((e, e) for e in episodes), suite.rules)
    elif judge := judge_of(suite):
        for episode in episodes:
            for index, step in enumerate(episode.steps):
                state = state_at(episode.task, episode.steps[:index], step.observation)
                if judged := judge(state, step.decision.candidates):
                    yield _rated(judged.kind, episode, step.decision, judged.right)


class Judged(NamedTuple):
    """What an oracle says of a state's candidates."""

    kind: str  # of page or task
    right: Sequence[bool]


Judge = Callable[[State, Sequence[Candidate]], Judged | None]


def judge_of(suite: Suite) -> Judge | None:
    """Who rates the candidates of a state by all that it shows; None where nobody can. A judge gives None in a state in
    which it does not know what is right."""
    if isinstance(suite, LocalSuite) and isinstance(suite.rules, WebShop):
        return partial(_webshop, suite.rules)
    if isinstance(suite, LocalSuite) and isinstance(suite.rules, Booking):
        return partial(_booking, suite.rules)
    return _miniwob if isinstance(suite, MiniWob) else None


def _webshop(suite: WebShop, state: State, candidates: Sequence[Candidate]) -> Judged:
    shop, oracle = suite.server(state.task.split), Oracle(suite, suite.goals[state.task.id])
    view = from_url(state.observation.url, shop.catalogue)
    if view is None:
        raise DataError(f"{state.observation.url} of task {state.task.id} is no page of this suite's shop")
    right = [is_right(oracle, shop, view, state.observation, one.action) for one in candidates]
    return Judged(type(view).__name__.lower(), right)


def _booking(suite: Booking, state: State, candidates: Sequence[Candidate]) -> Judged:
    oracle = BookingOracle(suite, state.task.id)
    view = suite.server(state.task.split).view(suite.visit(state.task), state.observation.url)
    right = [oracle.is_right(view, state.observation, one.action) for one in candidates]
    return Judged(getattr(view, "page", type(view).__name__.lower()), right)


def _miniwob(state: State, candidates: Sequence[Candidate]) -> Judged | None:
    """Right is the action that the solver advises. None where there is no solver, or it knows nothing to do. Some count
    past actions, so that after a needless one what they advise can be wrong; another right action is counted as
    wrong."""
    name = state.task.id.partition("/")[0]
    try:
        advice = advise(state) if name in SOLVERS else None
    except Unsolved:
        return None
    return advice and Judged(name, [identity(one.action) == identity(advice.action) for one in candidates])


def _quirks(pairs: Iterable[tuple[Episode, Episode]], suite: Quirks) -> Iterator[OracleStep]:
    """Each episode is played again as text, since its pages do not tell what the site did."""
    for episode, played in pairs:
        env, oracle = TextEnv(suite), QuirksOracle(suite, episode.task, knows=True)
        at_once(env.reset(episode.task, seed=0))
        for step, taken in zip(episode.steps, played.steps, strict=True):
            decision, title = step.decision, env.visit.site.kind.stages[env.visit.stage].title
            right = [oracle.is_right(env.visit, step.observation, c.action) for c in decision.candidates]
            yield _rated(title, episode, decision, right)
            at_once(env.step(taken.decision.candidate.action))


def _rated(kind: str, episode: Episode, decision: Decision, right: Sequence[bool]) -> OracleStep:
    return OracleStep(kind, (episode.task.suite, episode.task.id), tuple(right), decision.chosen)


def rank(
    config: Config = None,
    set_: Set = None,
    store: Stored = RUNS,
    run: Annotated[str, typer.Option(help="An evaluated run.")] = "eval",
    agent: Annotated[list[str] | None, typer.Option(help="Whose choices to count. Default: all. Repeatable.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Folder: all tables and figures of `bestofq report`, rated by the oracle.")
    ] = None,
    data: Data = None,
) -> None:
    """Count right actions proposed and taken, against an oracle, per kind of page or task (Fig. 3, exactly)."""
    models = models_of(CommonOptions(config=config, set_=set_, data=data))
    selection = Selection(runs=[run], agents=agent)
    with Store.open(store, read_only=True) as opened:
        rows = read_rows(opened, selection)
        finished = rows.name_rows(selection.summaries(opened))
        rated = {
            name: list(oracle_steps(models, (opened.episode(e.id) for e in finished if e.agent == name)))
            for name in dict.fromkeys(e.agent for e in finished)
            if agent is None or any(name in rows.of(one) for one in agent)
        }
        if not any(rated.values()):
            raise InputError(f"no oracle knows what is right in these episodes on {models.settings.suite.name}")
        for name, steps in rated.items():
            console.print(ranking_table(f"{name}: shares of steps", by_kind(steps)))
        console.print(recall_table(rated, rater="the suite's oracle"))
        if html is not None:
            found = add_recall(gather(opened, selection), rated)
            console.print(f"written: {export(opened, found, html, title='Best-of-Q')}")


def ranking_table(title: str, rows: Mapping[str, Ranking]) -> Table:
    """A row a kind of page or task."""
    shares = ("right chosen %", "first right %", "chance %")
    contested = ("contested: steps", *(f"contested: {name}" for name in shares))
    heads = columns("page", "steps", "right proposed %", *shares, *contested)
    return Table.of("ranking", title, heads, [(kind, *row.values()) for kind, row in rows.items()])
