"""Where a row's numbers come from: runs, commit, model, seed, N, Q-function and command, as the store keeps them."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from bestofq.core.decision import Provenance
from bestofq.reports.stats import distinct, group_by
from bestofq.reports.table import RowSource
from bestofq.store.configuration import AGENTS
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.store import Store

SAMPLED = 20  # episodes of an agent in a run that are read for its N and its commands


def origins(store: Store, episodes: Iterable[EpisodeSummary]) -> dict[str, RowSource]:
    """What made the episodes, by their row's name, which they have as their agent's."""
    runs = {run.name: run for run in store.runs()}
    sources: dict[str, list[RowSource]] = {}
    for (row, run), some in group_by(episodes, lambda e: (e.agent, e.run)).items():
        sources.setdefault(row, []).append(origin(store, runs[run], some))
    return {row: join_sources(made) for row, made in sources.items()}


def origin(store: Store, run: RunRecord, episodes: Sequence[EpisodeSummary]) -> RowSource:
    """What made these episodes of one agent in a run. `SAMPLED` of them are read, spread evenly.

    N is the number of candidates that the run keeps for the agent, else the most offered at a step.
    """
    count = min(SAMPLED, len(episodes))
    sampled = [store.episode(episodes[i * len(episodes) // count].id) for i in range(count)]
    steps = [step for episode in sampled for step in episode.steps]
    kept = run.config.get(AGENTS)
    own = kept.get(sampled[0].agent) if isinstance(kept, dict) else None  # the name may hold dots
    n = own.get("n") if isinstance(own, dict) else None
    offered = max((len(step.decision.candidates) for step in steps), default=None)
    return _source(run, [episode.provenance for episode in sampled]).model_copy(
        update={
            "repeats": len({e.repeat for e in episodes}),
            "n": n if isinstance(n, int) else offered,
            "checkpoints": distinct(e.checkpoint for e in episodes if e.checkpoint),
        }
    )


def search_origin(run: RunRecord) -> RowSource:
    """What made the trees of a run."""
    return _source(run)


def _source(run: RunRecord, others: Sequence[Provenance] = ()) -> RowSource:
    made, model = (run.provenance, *others), proposer_model(run.config)
    return RowSource(
        runs=(run.name,),
        commits=distinct(p.commit for p in made if p.commit),
        models=() if model is None else (model,),
        seeds=(run.provenance.seed,),
        commands=distinct(p.command for p in made if p.command),
        repeats=1,
        n=None,
    )


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


def proposer_model(config: Mapping[str, JsonValue]) -> str | None:
    """The model that proposes in a run of this configuration: the chat endpoint's, else the local one."""
    found = setting(config, "chat.model") or setting(config, "model.path") or setting(config, "model")
    return found if isinstance(found, str) else None
