"""Every table and figure of some runs, from one reading of their episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bestofq.reports.costs import agent_costs, cost_table, pareto_svg
from bestofq.reports.figures import bars_svg
from bestofq.reports.origin import run_origin, setting
from bestofq.reports.reliability import pass_table
from bestofq.reports.rollout import replay
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.stats import attempts_of, distinct, group_by
from bestofq.reports.success import agent_results, domain_results, success_table
from bestofq.reports.svg import Figure
from bestofq.reports.table import RowSource, Table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary

DOMAINS = 200  # with more the table of domains is left out
MAX_TREES = 6  # how many search trees are drawn


ALPHA, THRESHOLD = 0.5, 0.2
"""The weight of the searched Q against feedback's (Agent Q, Eq. 10), and the least difference in Q of a pair."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every table and figure of some episodes, the headline first."""

    tables: Sequence[Table]
    figures: Sequence[Figure]
    made: Mapping[str, RowSource]  # by row
    episodes: Sequence[EpisodeSummary]  # by task, agents in the order of the headline
    trees: Sequence[TreeSummary]  # the most telling
    read: Selection  # of the store: its runs, and the agents' own names
    alpha: float
    threshold: float


def gather(
    store: Store, selection: Selection = EVERYTHING, *, alpha: float = ALPHA, threshold: float = THRESHOLD
) -> Report:
    """Every table and figure of the selection; without a baseline, `Rows.baseline`'s. DataError as `agent_results`."""
    of_runs = {run.name: run for run in store.runs() if selection.runs is None or run.name in selection.runs}
    searches = search_rows(store, list(of_runs), alpha=alpha, threshold=threshold)
    searched = {row.run: run_origin([of_runs[row.run]], None) for row in searches}
    found = Report(
        tables=[search_table(searches, searched)] if searched else [],
        figures=(),
        made={f"searches of {run}": source for run, source in searched.items()},
        episodes=(),
        trees=telling_trees(store, [*searched], MAX_TREES, alpha=alpha, threshold=threshold),
        read=replace(selection, runs=[*searched]),
        alpha=alpha,
        threshold=threshold,
    )
    if searched and not any(store.summaries(run=run) for run in of_runs):
        return found
    rows = read_rows(store, selection)
    if selection.baseline is None:
        selection = replace(selection, baseline=rows.baseline())
    results = agent_results(store, selection)
    names = [row.agent for row in results.rows]
    episodes = [e for e in rows.name_rows(selection.summaries(store)) if e.agent in names]
    by_agent = group_by(episodes, lambda e: e.agent)
    made = {row.agent: row.origin for row in results.rows if row.origin}
    read = replace(selection, runs=results.runs, agents=[*distinct(rows[name].agent for name in names)])
    domains = domain_results(store, replace(selection, agents=names, baseline=results.baseline))
    costs = agent_costs(store, read)
    bars = bars_svg([(row.agent, row.rate) for row in results.rows], baseline=results.baseline)
    figures = [
        Figure("success", "Success of each agent", bars),
        Figure("pareto", "Success against cost (Fig. 2)", pareto_svg(costs)),
    ]
    rollouts = [
        f"Rollout of {run.name}: {replay(store.summaries(run=run.name), 'best-of-q')[-1].describe()}."
        for run in of_runs.values()
        if setting(run.config, "serve.rollout")
    ]
    headline = success_table(results)
    return replace(
        found,
        tables=[
            headline.model_copy(update={"notes": (*headline.notes, *rollouts)}),
            *([success_table(domains)] if 2 < len({row.values[0] for row in domains.rows}) < DOMAINS else []),
            pass_table({name: attempts_of(by_agent[name]) for name in names}, made),
            cost_table(costs),
            *found.tables,
        ],
        figures=figures,
        made=made | dict(found.made),
        episodes=sorted(episodes, key=lambda e: (e.key[:2], names.index(e.agent), e.run, e.key.repeat)),
        read=replace(read, runs=[*distinct([*(read.runs or ()), *searched])]),
    )
