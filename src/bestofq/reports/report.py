"""Every table and figure of some runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bestofq.reports.costs import agent_costs, pareto_svg
from bestofq.reports.diagnosis import DEFAULTS, Options, diagnose
from bestofq.reports.figures import learning_curve_svg, success_bars_svg
from bestofq.reports.origin import origins, search_origin
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.stats import distinct
from bestofq.reports.success import agent_results, domain_results, success_table
from bestofq.reports.svg import Figure
from bestofq.reports.table import RowSource, Table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary

DOMAINS = 200  # with more the table of domains is left out


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
    """Every table and figure of the selection. DataError as `agent_results`."""
    of_runs = {run.name: run for run in store.runs() if selection.runs is None or run.name in selection.runs}
    searches = search_rows(store, list(of_runs), alpha=options.alpha, threshold=options.threshold)
    searched = {row.run: search_origin(of_runs[row.run]) for row in searches}
    found = Report(
        tables=[search_table(searches, searched)] if searched else [],
        figures=(),
        made={f"searches of {run}": one for run, one in searched.items()},
        episodes=(),
        trees=telling_trees(store, [*searched], options.max_trees, alpha=options.alpha, threshold=options.threshold),
        read=replace(selection, runs=[*searched]),
        options=options,
    )
    if searched and not any(store.summaries(run=run) for run in of_runs):
        return found
    results = agent_results(store, selection)
    names = [row.agent for row in results.rows]
    rows = read_rows(store, selection)
    episodes = [e for e in rows.name_rows(selection.summaries(store)) if e.agent in names]
    known = origins(store, episodes)
    made = {name: known[name] for name in names}
    read = replace(selection, runs=results.runs, agents=rows.agents(names))
    domains = domain_results(store, replace(selection, agents=names, baseline=results.baseline))
    more_tables, more_figures = diagnose(store, episodes, made, results.baseline, options)
    bars = success_bars_svg([(row.agent, row.rate) for row in results.rows], results.baseline)
    pareto = pareto_svg(agent_costs(store, read, prices=options.prices))
    figures = [
        Figure(name="success", caption="Success of each agent", svg=bars),
        Figure(name="pareto", caption="Success against cost (Fig. 2)", svg=pareto),
    ]
    if options.curve:
        curve = partial(learning_curve_svg, options.curve, baseline=options.curve_baseline)
        figures += [
            Figure(name="curve", caption="Success by episodes learned from (Fig. 4)", svg=curve(by="episodes")),
            Figure(
                name="curve-successes", caption="Success by successful episodes (Fig. 8)", svg=curve(by="successes")
            ),
        ]
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
