"""Where a row's numbers come from: runs, commit, model, seed, N, Q-function and command, as the store keeps them."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from bestofq.core.decision import Provenance
from bestofq.reports.stats import distinct, group_by
from bestofq.reports.table import RowSource
from bestofq.store.configuration import AGENTS, SEARCHES
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.store import Store
from bestofq.store.tally import Tally

SAMPLED = 20  # episodes of an agent that are read for its N


def origins(store: Store, episodes: Iterable[EpisodeSummary]) -> dict[str, RowSource]:
    runs = {run.name: run for run in store.runs()}
    by_row = group_by(episodes, lambda episode: episode.agent)
    return {name: _origin(store, runs, some) for name, some in by_row.items()}


def origin(store: Store, run: RunRecord, tallies: Sequence[Tally]) -> RowSource:
    """What made the episodes of these tallies, all of one agent in the run and with one Q-function."""
    splits = {t.split for t in tallies}
    mine = store.summaries(run=run.name, agent=tallies[0].agent)
    checkpoints = (None, tallies[0].checkpoint)
    return _origin(store, {run.name: run}, [e for e in mine if e.split in splits and e.checkpoint in checkpoints])


def _origin(store: Store, runs: Mapping[str, RunRecord], episodes: Sequence[EpisodeSummary]) -> RowSource:
    """Commands and the number of candidates are read from `SAMPLED` of these episodes, spread evenly."""
    of_runs = [runs[name] for name in distinct(e.run for e in episodes)]
    count = min(SAMPLED, len(episodes))
    sampled = [store.episode(episodes[i * len(episodes) // count].id) for i in range(count)]
    steps = [step for episode in sampled for step in episode.steps]
    seen = max((len(step.decision.candidates) for step in steps), default=None)
    players = [(run.config, agent) for run in of_runs for agent in distinct(episode.agent for episode in sampled)]
    numbers = (_requested_candidates(*player, seen) for player in players)
    source = _source_of_runs(of_runs, [episode.provenance for episode in sampled])
    update = {
        "repeats": len({(e.run, e.repeat) for e in episodes}),
        "n": max((n for n in numbers if n is not None), default=None),
        "checkpoints": distinct(e.checkpoint for e in episodes if e.checkpoint),
    }
    return source.model_copy(update=update)


def _source_of_runs(runs: Sequence[RunRecord], others: Sequence[Provenance] = ()) -> RowSource:
    made = [*(run.provenance for run in runs), *others]
    return RowSource(
        runs=tuple(run.name for run in runs),
        commits=distinct(p.commit for p in made if p.commit),
        models=distinct(model for run in runs if (model := proposer_model(run.config))),
        seeds=distinct(run.provenance.seed for run in runs),
        commands=distinct(p.command for p in made if p.command),
        repeats=1,
        n=None,
    )


def search_origin(run: RunRecord) -> RowSource:
    candidates = setting(run.config, f"{SEARCHES}.trees.candidates")
    return _source_of_runs([run]).model_copy(update={"n": candidates if isinstance(candidates, int) else None})


def join_sources(made: Sequence[RowSource]) -> RowSource:
    several = ("runs", "commits", "models", "seeds", "checkpoints", "commands")
    return RowSource(
        repeats=sum(source.repeats for source in made),
        n=max((source.n for source in made if source.n is not None), default=None),
        **{name: distinct(value for source in made for value in getattr(source, name)) for name in several},
    )


def setting(config: Mapping[str, JsonValue], key: str) -> JsonValue:
    """The setting `a.b` of a run's configuration; None without it."""
    found: JsonValue = dict(config)
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _requested_candidates(config: Mapping[str, JsonValue], agent: str, seen: int | None) -> int | None:
    """N, the candidates that an agent requests at a step; None: unknown.

    The run may keep it. Else it is the run's `n_candidates`, unless `seen`, the most offered at a step, contradicts it.
    """
    kept = _own_setting(config, agent, "n")
    if isinstance(kept, int):
        return kept
    usual = config.get("n_candidates")
    return usual if isinstance(usual, int) and (seen is None or 1 < seen <= usual) else seen


def _own_setting(config: Mapping[str, JsonValue], agent: str, name: str) -> JsonValue:
    """A setting that the run keeps for the agent alone; an agent's name may hold dots."""
    own = isinstance(agents := config.get(AGENTS), dict) and agents.get(agent)
    return own.get(name) if isinstance(own, dict) else None


def proposer_model(config: Mapping[str, JsonValue]) -> str | None:
    """The model that proposes in a run of this configuration: the chat endpoint's, else the local one."""
    found = setting(config, "chat.model") or setting(config, "model.path") or setting(config, "model")
    return found if isinstance(found, str) else None
