"""Every table and figure of some runs, from one reading of their episodes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bestofq.core.decision import Candidate, Episode, Step
from bestofq.core.observation import Observation
from bestofq.core.protocols import Rated
from bestofq.reports.costs import agent_costs, cost_table, pareto_svg
from bestofq.reports.figures import failure_split_svg, learning_curve_svg, reliability_svg, success_bars_svg, values_svg
from bestofq.reports.naming import shown
from bestofq.reports.origin import origins, search_origin
from bestofq.reports.recall import count_decisive_steps, recall_table, sibling_steps, split_failures
from bestofq.reports.reliability import pass_table
from bestofq.reports.rollout import replay, rollout_svg
from bestofq.reports.rows import EVERYTHING, Selection, read_rows
from bestofq.reports.searches import search_rows, search_table, telling_trees
from bestofq.reports.stats import attempts_of, distinct, group_by
from bestofq.reports.success import agent_results, dev_base, dev_curve, domain_results, success_table
from bestofq.reports.svg import Figure
from bestofq.reports.table import RowSource, Table
from bestofq.reports.values import has_values, telling_pair
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from bestofq.store.trees import TreeSummary

DOMAINS = 200  # with more the table of domains is left out
MAX_TREES = 6  # how many search trees are drawn


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a report takes in addition to its episodes."""

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
    more_tables, more_figures = _diagnose(store, episodes, made, options)
    costs = agent_costs(store, read)
    figures = [
        Figure(
            name="success",
            caption="Success of each agent",
            svg=success_bars_svg([(row.agent, row.rate) for row in results.rows], results.baseline),
        ),
        Figure(name="pareto", caption="Success against cost (Fig. 2)", svg=pareto_svg(costs)),
    ]
    if curve := dev_curve(store):
        svg = learning_curve_svg(curve, baseline=dev_base(store))
        figures.append(Figure(name="curve", caption="Success by episodes learned from (Fig. 4)", svg=svg))
        svg = learning_curve_svg(curve, baseline=dev_base(store), by="successes")
        figures.append(Figure(name="curve-successes", caption="Success by successful episodes (Fig. 8)", svg=svg))
    for run in (
        run for run in of_runs.values() if isinstance(asked := run.config.get("serve"), dict) and asked.get("rollout")
    ):
        states = replay(store.summaries(run=run.name), "best-of-q")
        caption = f"Rollout of {run.name}: {states[-1].describe()}"
        figures.append(Figure(name=f"rollout-{run.name}", caption=caption, svg=rollout_svg(states)))
    return replace(
        found,
        tables=[
            success_table(results, made),
            *([success_table(domains, made)] if 2 < len({row.values[0] for row in domains.rows}) < DOMAINS else []),
            *more_tables,
            cost_table(costs),
            *found.tables,
        ],
        figures=[*figures, *more_figures],
        made=made | dict(found.made),
        episodes=sorted(episodes, key=lambda e: (e.key[:2], names.index(e.agent), e.run, e.key.repeat)),
        read=replace(read, runs=[*distinct([*(read.runs or ()), *searched])]),
    )


def _diagnose(
    store: Store, episodes: Sequence[EpisodeSummary], made: Mapping[str, RowSource], options: Options
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
        if count_decisive_steps(rated):
            caption = f"Where steps go wrong (Fig. 3): {shown(agent)}"
            svg = failure_split_svg(*split_failures(rated))
            figures.append(Figure(name=f"failures-{agent}", caption=caption, svg=svg))

    names = {e.id: e.agent for e in episodes}
    valued = [agent for agent in made if has_values(e for e in read if e.agent == agent)]
    ids = options.shown or [e.id for agent in valued for e in telling_pair(of_agent[agent])]
    drawn = [e.model_copy(update={"agent": names.get(e.id, e.agent)}) for e in map(store.episode, ids)]
    for episode in drawn:
        caption = f"V, Q taken and other candidates (Fig. 12): {shown(episode.agent)} on {episode.task.id}"
        figures.append(Figure(name=f"values-{episode.id}", caption=caption, svg=values_svg(episode)))

    tables = [
        passes,
        recall_table(rates, made, rater=who, of={agent: sum(e.steps for e in of_agent[agent]) for agent in made}),
    ]
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
