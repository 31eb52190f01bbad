"""All diagnostics of some runs from one reading of their episodes: tables and figures."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bestofq.core.decision import Candidate, Episode, Step
from bestofq.core.observation import Observation
from bestofq.core.protocols import Rated
from bestofq.reports.behaviour import behaviour_table, habits
from bestofq.reports.calibration import (
    Valued,
    are_values,
    bin_steps,
    calibration,
    calibration_table,
    ece,
    valued_steps,
)
from bestofq.reports.charts import calibration_svg, reliability_svg, values_svg
from bestofq.reports.costs import measure_costs, spending_table
from bestofq.reports.figures import CurvePoint, failure_split_svg
from bestofq.reports.naming import shown
from bestofq.reports.recall import rated_shares, recall, recall_table, sibling_steps
from bestofq.reports.reliability import pass_at, pass_table, pass_variance, reliability
from bestofq.reports.spent import ALL, Prices
from bestofq.reports.stats import UNIT, Attempts, Quantity, Tries, attempts_of
from bestofq.reports.svg import Figure
from bestofq.reports.table import Row, RowSource, Table, columns
from bestofq.reports.values import telling_pair, value_path, values_table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a report takes in addition to its episodes."""

    prices: Prices | None = None  # of tokens that have none in the store
    discount: float | None = None  # of the outcome that Q is compared with; None: the one each Q was trained with
    rated: Mapping[str, Sequence[Rated]] | None = None  # steps by agent; None: rated by successful siblings
    shown: Sequence[str] = ()  # episodes whose values are drawn (Fig. 12). Empty: a clear pair of each agent
    curve: Sequence[CurvePoint] = ()  # Fig. 4's
    curve_baseline: tuple[str, float] | None = None  # an agent and its success on the same tasks
    max_trees: int = 6  # how many search trees are drawn
    alpha: float = 0.5  # weight of the searched Q against feedback's (Agent Q, Eq. 10)
    threshold: float = 0.2  # least difference in Q of a preference pair (Agent Q, Algorithm 1)


DEFAULTS = Options()
_HABITS = ("steps / episode", "same step again %", "page again %", "episodes in a loop %")
Measures = Mapping[str, Mapping[str, Quantity]]
"""By agent and name."""


def diagnose(
    store: Store,
    episodes: Sequence[EpisodeSummary],
    made: Mapping[str, RowSource],
    baseline: str | None,
    options: Options,
) -> tuple[list[Table], list[Figure]]:
    """Return the tables and figures of finished episodes. Their agents are rows' names, in the order of `made`."""
    of_agent = {agent: [e for e in episodes if e.agent == agent] for agent in made}
    read = [_slim(store.episode(e.id), e.agent) for e in episodes if e.agent in made]
    attempts = {agent: attempts_of(theirs) for agent, theirs in of_agent.items()}
    tasks = {agent: {e.key[:2] for e in theirs} for agent, theirs in of_agent.items()}

    passes = reliability(attempts)
    figures = [Figure(name="reliability", caption="pass@k (Fig. 9)", svg=reliability_svg(passes))]

    who, rates = "an oracle", options.rated
    if rates is None:
        who = "what successful episodes of the same task did on the same page, which favours the usual first"
        alone = {agent: not any(tasks[agent] & tasks[other] for other in made if other != agent) for agent in made}
        rates = {agent: sibling_steps(read, agent, read, own=alone[agent]) for agent in made}
    steps = {agent: sum(e.steps for e in theirs) for agent, theirs in of_agent.items()}
    recalls = [recall(agent, rates[agent], of=steps[agent]) for agent in made if agent in rates]
    for row in recalls:
        if row.contested:
            caption = f"Where steps go wrong (Fig. 3): {shown(row.agent)}"
            figures.append(Figure(name=f"failures-{row.agent}", caption=caption, svg=failure_split_svg(row.split)))

    discounts = {name: row.discount if options.discount is None else options.discount for name, row in made.items()}
    valued = {agent: valued_steps(read, agent, discount=discounts[agent]) for agent in made}
    valued = {agent: steps for agent, steps in valued.items() if are_values(steps)}
    calibrated = [calibration(steps, agent, discount=discounts[agent]) for agent, steps in valued.items()]
    for found in calibrated:
        caption = f"Calibration of Q: {shown(found.agent)}"
        figures.append(Figure(name=f"calibration-{found.agent}", caption=caption, svg=calibration_svg(found)))

    paths = [value_path(e) for e in _read_shown(store, of_agent, valued, options.shown)]
    for path in paths:
        caption = f"V, Q taken and other candidates (Fig. 12): {shown(path.agent)} on {path.task}"
        figures.append(Figure(name=f"values-{path.episode}", caption=caption, svg=values_svg(path)))

    tables = [
        pass_table(passes, made),
        recall_table([row for row in recalls if row.steps], made, rater=who),
        *([calibration_table(calibrated, made)] if calibrated else []),
        *([values_table(paths, made)] if paths else []),
        behaviour_table(read, made),
        spending_table(read, made, prices=options.prices),
    ]
    common = [agent for agent in made if tasks[agent] & tasks.get(baseline or "", set())]
    if baseline is not None and len(common) > 1:
        tried = {agent: attempts[agent] for agent in common}
        measures = measure_agents(read, common, attempts=tried, rated=rates, valued=valued, prices=options.prices)
        tables.append(differences_table(measures, baseline, made))
    return tables, figures


def _slim(episode: Episode, agent: str) -> Episode:
    """The episode as this agent's, with hashes for its pages' texts and without replies: thousands are held at once."""

    def page(seen: Observation) -> Observation:
        digest = hashlib.sha256(seen.text.encode("utf-8", "surrogatepass")).hexdigest()
        return Observation(url=seen.url, title="", text=digest, elements=(), error=seen.error)

    def slim_step(step: Step) -> Step:
        candidates = tuple(Candidate(action=c.action, label=c.label) for c in step.decision.candidates)
        decision = step.decision.model_copy(update={"candidates": candidates})
        return step.model_copy(update={"observation": page(step.observation), "decision": decision})

    final = None if episode.final is None else page(episode.final)
    steps = tuple(map(slim_step, episode.steps))
    return episode.model_copy(update={"agent": agent, "steps": steps, "final": final})


def _read_shown(
    store: Store, of_agent: Mapping[str, Sequence[EpisodeSummary]], valued: Iterable[str], shown: Sequence[str]
) -> list[Episode]:
    """The episodes `shown`, else a clear pair of each agent with values; their agents are rows' names."""
    names = {e.id: agent for agent, episodes in of_agent.items() for e in episodes}
    ids = shown or [e.id for agent in valued for e in telling_pair(of_agent[agent])]
    return [e.model_copy(update={"agent": names.get(e.id, e.agent)}) for e in map(store.episode, ids)]


def measure_agents(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    *,
    attempts: Mapping[str, Attempts] | None = None,
    rated: Mapping[str, Sequence[Rated]] | None = None,
    valued: Mapping[str, Sequence[Valued]] | None = None,
    prices: Prices | None = None,
) -> Measures:
    """pass@k of `attempts`, recall and regret of `rated` steps, ECE of `valued` ones, habits and costs of the episodes.

    k is the number of runs that every agent has at some task. `prices` are for tokens without one in the episodes.
    """
    attempts, rated, valued = attempts or {}, rated or {}, valued or {}
    k = min((int(Tries.of(tried).done.sum(axis=1).max(initial=0)) for tried in attempts.values()), default=0)
    found: dict[str, dict[str, Quantity]] = {}
    for agent in agents:
        own = found[agent] = {}
        if k > 1:
            own |= {f"pass@{k}": pass_at(attempts[agent], k), "task variance": pass_variance(attempts[agent], 1)}
        shares = rated_shares(rated.get(agent, ()))
        own |= {"candidate recall": shares["recall"], "ranker's regret": shares["regret"]}
        own["ECE of Q"] = Quantity(bin_steps(valued.get(agent, ())), UNIT, ece)
        did = habits(episodes, agent)
        own |= {head.removesuffix(" %"): did[head] for head in _HABITS}
        own |= measure_costs(episodes, agent, prices=prices).get(ALL, {})
    return found


def differences_table(measures: Measures, baseline: str, made: Mapping[str, RowSource]) -> Table:
    """A row for each agent and measure: the difference to the baseline, paired by task.

    If a measure is not defined for the baseline (an agent without Q-values has no ECE), it is to the first agent that
    has the measure.
    """
    rows = []
    for agent, own in measures.items():
        for what, quantity in own.items():
            known = (n for n in (baseline, *measures) if what in measures[n] and measures[n][what].value is not None)
            against = next(known, agent)
            if against != agent and (difference := quantity.minus(measures[against][what])) is not None:
                cells = (agent, against, what, difference, difference.tasks)
                rows.append(Row(cells=cells, origin=made.get(agent)))
    return Table(
        name="differences",
        title="Differences between agents, paired by task",
        columns=(
            *columns("agent", "against", "what"),
            *columns("difference", signed=["difference"], digits=None),
            *columns("tasks"),
        ),
        rows=tuple(rows),
        notes=(
            "The agent's minus the other's on the tasks of both, shares in [0, 1]; 95 % bootstrap, paired by task.",
            "Against the baseline, or the first agent that has the measure. ∞: resamples without a success have no "
            "bound on its cost.",
        ),
    )
