"""Every table and figure of some runs, from one reading of their episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bestofq.core.protocols import Rated
from bestofq.reports.costs import agent_costs, cost_table, pareto_svg
from bestofq.reports.figures import bars_svg, failure_split_svg, learning_curve_svg
from bestofq.reports.naming import shown
from bestofq.reports.origin import search_origin, setting
from bestofq.reports.recall import count_decisive_steps, recall_table, sibling_steps, split_failures
from bestofq.reports.reliability import pass_table
from bestofq.reports.rollout import replay, rollout_svg
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.stats import attempts_of, distinct, group_by
from bestofq.reports.success import agent_results, dev_base, dev_curve, domain_results, success_table
from bestofq.reports.svg import Figure
from bestofq.reports.table import RowSource, Table
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary

DOMAINS = 200  # with more the table of domains is left out
MAX_TREES = 6  # how many search trees are drawn


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a report takes in addition to its episodes."""

    rated: Mapping[str, Sequence[Rated]] | None = None  # steps by agent; None: rated by successful siblings
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
    by_agent = group_by(episodes, lambda e: e.agent)
    made = {row.agent: row.origin for row in results.rows if row.origin}
    read = replace(selection, runs=results.runs, agents=[*distinct(rows[name].agent for name in names)])
    domains = domain_results(store, replace(selection, agents=names, baseline=results.baseline))
    recall, splits = _rate_steps(store, {name: by_agent[name] for name in names}, made, options.rated)
    costs = agent_costs(store, read)
    bars = bars_svg([(row.agent, row.rate) for row in results.rows], baseline=results.baseline)
    figures = [
        Figure("success", "Success of each agent", bars),
        Figure("pareto", "Success against cost (Fig. 2)", pareto_svg(costs)),
    ]
    if curve := dev_curve(store):
        base = dev_base(store)
        svgs = (learning_curve_svg(curve, baseline=base), learning_curve_svg(curve, baseline=base, by="successes"))
        figures.append(Figure("curve", "Success by episodes learned from (Fig. 4)", svgs[0]))
        figures.append(Figure("curve-successes", "Success by successful episodes (Fig. 8)", svgs[1]))
    for run in of_runs.values():
        if setting(run.config, "serve.rollout"):
            states = replay(store.summaries(run=run.name), "best-of-q")
            caption = f"Rollout of {run.name}: {states[-1].describe()}"
            figures.append(Figure(f"rollout-{run.name}", caption, rollout_svg(states)))
    return replace(
        found,
        tables=[
            success_table(results),
            *([success_table(domains)] if 2 < len({row.values[0] for row in domains.rows}) < DOMAINS else []),
            pass_table({name: attempts_of(by_agent[name]) for name in names}, made),
            recall,
            cost_table(costs),
            *found.tables,
        ],
        figures=[*figures, *splits],
        made=made | dict(found.made),
        episodes=sorted(episodes, key=lambda e: (e.key[:2], names.index(e.agent), e.run, e.key.repeat)),
        read=replace(read, runs=[*distinct([*(read.runs or ()), *searched])]),
    )


def _rate_steps(
    store: Store,
    by_agent: Mapping[str, Sequence[EpisodeSummary]],
    made: Mapping[str, RowSource],
    rates: Mapping[str, Sequence[Rated]] | None,
) -> tuple[Table, list[Figure]]:
    """Return the table of recall, and where each agent's steps go wrong. Without `rates`, siblings rate."""
    who = "an oracle"
    if rates is None:
        who = "what successful episodes of the same task did on the same page, which favours the usual first"
        named = ((store.episode(e.id), e.agent) for episodes in by_agent.values() for e in episodes)
        rates = sibling_steps(episode.model_copy(update={"agent": agent}) for episode, agent in named)
    rates = {agent: rates[agent] for agent in by_agent if agent in rates}
    figures = [
        Figure(f"failures-{agent}", f"Where steps go wrong (Fig. 3): {shown(agent)}", failure_split_svg(*split))
        for agent, rated in rates.items()
        if count_decisive_steps(rated) and (split := split_failures(rated))
    ]
    of = {agent: sum(e.steps for e in episodes) for agent, episodes in by_agent.items()}
    return recall_table(rates, rater=who, of=of, made=made), figures
