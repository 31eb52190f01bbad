"""Every table and figure of some runs, from one reading of their episodes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from bestofq.reports.costs import ALL, Prices, agent_costs, measure_costs, pareto_svg, spending_table
from bestofq.reports.figures import (
    calibration_svg,
    failure_split_svg,
    learning_curve_svg,
    reliability_svg,
    success_bars_svg,
    values_svg,
)
from bestofq.reports.naming import shown
from bestofq.reports.origin import origins, search_origin
from bestofq.reports.recall import count_contested, rated_shares, recall_table, sibling_steps, split_failures
from bestofq.reports.reliability import pass_at, pass_table, pass_variance
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.stats import UNIT, Attempts, Quantity, Tries, attempts_of, distinct, group_by
from bestofq.reports.success import agent_results, dev_base, dev_curve, domain_results, success_table
from bestofq.reports.svg import Figure
from bestofq.reports.table import Cell, RowSource, Table, columns
from bestofq.reports.values import telling_pair, values_table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary

DOMAINS = 200  # with more the table of domains is left out
MAX_TREES = 6  # how many search trees are drawn
_HABITS = ("steps / episode", "same step again %", "page again %", "episodes in a loop %")
Measures = Mapping[str, Mapping[str, Quantity]]
"""By agent and name."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a report takes in addition to its episodes."""

    prices: Prices | None = None  # of tokens that have none in the store
    discount: float | None = None  # of the outcome that Q is compared with; None: the one each Q was trained with
    rated: Mapping[str, Sequence[Rated]] | None = None  # steps by agent; None: rated by successful siblings
    shown: Sequence[str] = ()  # episodes whose values are drawn (Fig. 12). Empty: a clear pair of each agent
    alpha: float = 0.5  # weight of the searched Q against feedback's (Agent Q, Eq. 10)
    threshold: float = 0.2  # least difference in Q of a preference pair (Agent Q, Algorithm 1)


DEFAULTS = Options()


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every table and figure of some episodes, the headline first."""

    tables: Sequence[Table]
    figures: Sequence[Figure]
    made: Mapping[str, RowSource]  # by row
    episodes: Sequence[EpisodeSummary]  # by task, agents in the order of the headline
    trees: Sequence[TreeSummary]  # the most telling
    read: Selection  # of the store: its runs, and the agents' own names
    options: Options


def gather(store: Store, selection: Selection = EVERYTHING, options: Options = DEFAULTS) -> Report:
    """Every table and figure of the selection; without a baseline, `Rows.baseline`'s. DataError as `agent_results`."""
    of_runs = {run.name: run for run in store.runs() if selection.runs is None or run.name in selection.runs}
    searches = search_rows(store, list(of_runs), alpha=options.alpha, threshold=options.threshold)
    searched = {row.run: search_origin(of_runs[row.run]) for row in searches}
    found = Report(
        tables=[search_table(searches, searched)] if searched else [],
        figures=(),
        made={f"searches of {run}": source for run, source in searched.items()},
        episodes=(),
        trees=telling_trees(store, [*searched], MAX_TREES, alpha=options.alpha, threshold=options.threshold),
        read=replace(selection, runs=[*searched]),
        options=options,
    )
    if searched and not any(store.summaries(run=run) for run in of_runs):
        return found
    rows = read_rows(store, selection)
    if selection.baseline is None:
        selection = replace(selection, baseline=rows.baseline())
    results = agent_results(store, selection)
    names = [row.agent for row in results.rows]
    episodes = [e for e in rows.name_rows(selection.summaries(store)) if e.agent in names]
    known = origins(store, episodes)
    made = {name: known[name] for name in names}
    read = replace(selection, runs=results.runs, agents=rows.agents(names))
    domains = domain_results(store, replace(selection, agents=names, baseline=results.baseline))
    more_tables, more_figures = _diagnose(store, episodes, made, results.baseline, options)
    figures = [
        Figure(
            name="success",
            caption="Success of each agent",
            svg=success_bars_svg([(row.agent, row.rate) for row in results.rows], results.baseline),
        ),
        Figure(
            name="pareto",
            caption="Success against cost (Fig. 2)",
            svg=pareto_svg(agent_costs(store, read, prices=options.prices)),
        ),
    ]
    if curve := dev_curve(store):
        svg = learning_curve_svg(curve, baseline=dev_base(store))
        figures.append(Figure(name="curve", caption="Success by episodes learned from (Fig. 4)", svg=svg))
        svg = learning_curve_svg(curve, baseline=dev_base(store), by="successes")
        figures.append(Figure(name="curve-successes", caption="Success by successful episodes (Fig. 8)", svg=svg))
    return replace(
        found,
        tables=[
            success_table(results, made),
            *([success_table(domains, made)] if 2 < len({row.values[0] for row in domains.rows}) < DOMAINS else []),
            *more_tables,
            *found.tables,
        ],
        figures=[*figures, *more_figures],
        made=made | dict(found.made),
        episodes=sorted(episodes, key=lambda e: (e.key[:2], names.index(e.agent), e.run, e.key.repeat)),
        read=replace(read, runs=[*distinct([*(read.runs or ()), *searched])]),
    )


def _diagnose(
    store: Store,
    episodes: Sequence[EpisodeSummary],
    made: Mapping[str, RowSource],
    baseline: str | None,
    options: Options,
) -> tuple[list[Table], list[Figure]]:
    """Return the other tables and figures of episodes whose agents are rows' names, in the order of `made`."""
    by_agent = group_by(episodes, lambda e: e.agent)
    of_agent = {agent: by_agent[agent] for agent in made}
    read = [_slim(store.episode(e.id), e.agent) for e in episodes]
    attempts = {agent: attempts_of(theirs) for agent, theirs in of_agent.items()}
    tasks = {agent: {e.key[:2] for e in theirs} for agent, theirs in of_agent.items()}

    passes = pass_table(attempts, made)
    figures = [Figure(name="reliability", caption="pass@k (Fig. 9)", svg=reliability_svg(passes))]

    who, rates = "an oracle", options.rated
    if rates is None:
        who = "what successful episodes of the same task did on the same page, which favours the usual first"
        alone = {agent: not any(tasks[agent] & tasks[other] for other in made if other != agent) for agent in made}
        rates = {agent: sibling_steps(read, agent, read, own=alone[agent]) for agent in made}
    rates = {agent: rates[agent] for agent in made if agent in rates}
    for agent, rated in rates.items():
        if count_contested(rated):
            caption = f"Where steps go wrong (Fig. 3): {shown(agent)}"
            svg = failure_split_svg(*split_failures(rated))
            figures.append(Figure(name=f"failures-{agent}", caption=caption, svg=svg))

    discounts = {name: row.discount if options.discount is None else options.discount for name, row in made.items()}
    valued = {agent: valued_steps(read, agent, discount=discounts[agent]) for agent in made}
    valued = {agent: steps for agent, steps in valued.items() if are_values(steps)}
    calibrated = [calibration(steps, agent, discount=discounts[agent]) for agent, steps in valued.items()]
    for found in calibrated:
        caption = f"Calibration of Q: {shown(found.agent)}"
        figures.append(Figure(name=f"calibration-{found.agent}", caption=caption, svg=calibration_svg(found)))

    names = {e.id: e.agent for e in episodes}
    ids = options.shown or [e.id for agent in valued for e in telling_pair(of_agent[agent])]
    drawn = [e.model_copy(update={"agent": names.get(e.id, e.agent)}) for e in map(store.episode, ids)]
    for episode in drawn:
        caption = f"V, Q taken and other candidates (Fig. 12): {shown(episode.agent)} on {episode.task.id}"
        figures.append(Figure(name=f"values-{episode.id}", caption=caption, svg=values_svg(episode)))

    tables = [
        passes,
        recall_table(rates, made, rater=who, of={agent: sum(e.steps for e in of_agent[agent]) for agent in made}),
        *([calibration_table(calibrated, made)] if calibrated else []),
        *([values_table(drawn, made)] if drawn else []),
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
    rows: list[tuple[Cell, ...]] = []
    for agent, own in measures.items():
        for what, quantity in own.items():
            known = (n for n in (baseline, *measures) if what in measures[n] and measures[n][what].value is not None)
            against = next(known, agent)
            if against != agent and (difference := quantity.minus(measures[against][what])) is not None:
                rows.append((agent, against, what, difference, difference.tasks))
    return Table.of(
        "differences",
        "Differences between agents, paired by task",
        (
            *columns("agent", "against", "what"),
            *columns("difference", signed=["difference"], digits=None),
            *columns("tasks"),
        ),
        rows,
        "The agent's minus the other's on the tasks of both, shares in [0, 1]; 95 % bootstrap, paired by task.",
        "Against the baseline, or the first agent that has the measure. ∞: resamples without a success have no "
        "bound on its cost.",
        made=made,
    )
