"""Where a row's numbers come from: runs, commit, model, seed, N, Q-function and command, as the store keeps them."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from bestofq.reports.stats import distinct, group_by
from bestofq.reports.table import RowSource
from bestofq.store.configuration import AGENTS, DISCOUNT, SEARCHES
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.store import Store

SAMPLED = 20  # episodes of an agent that are read for its N


def origins(store: Store, episodes: Iterable[EpisodeSummary]) -> dict[str, RowSource]:
    """By agent, what made these episodes."""
    runs = {run.name: run for run in store.runs()}
    by_agent = group_by(episodes, lambda episode: episode.agent)
    return {agent: origin(store, runs, found) for agent, found in by_agent.items()}


def origin(store: Store, runs: Mapping[str, RunRecord], episodes: Sequence[EpisodeSummary]) -> RowSource:
    """What made these episodes; Q-functions, commands and what was offered are read from `SAMPLED`, spread evenly."""
    names = distinct(episode.run for episode in episodes)
    configs = [runs[name].config for name in names]
    count = min(SAMPLED, len(episodes))
    sampled = [store.episode(episodes[i * len(episodes) // count].id) for i in range(count)]
    steps = [step for episode in sampled for step in episode.steps]
    seen = max((len(step.decision.candidates) for step in steps), default=None)
    agents = distinct(episode.agent for episode in sampled)  # `episodes` may go by the name of their row
    played = [(config, agent) for config in configs for agent in agents]
    trained = (_of_agent(*one, DISCOUNT) for one in played)
    made = [*(runs[name].provenance for name in names), *(episode.provenance for episode in sampled)]
    return RowSource(
        runs=names,
        commits=distinct(p.commit for p in made if p.commit),
        models=distinct(model for config in configs if (model := proposer_model(config))),
        seeds=distinct(runs[name].provenance.seed for name in names),
        repeats=len({(episode.run, episode.key.repeat) for episode in episodes}),
        n=max((n for one in played if (n := candidates_wanted(*one, seen)) is not None), default=None),
        checkpoints=distinct(name for step in steps if (name := step.decision.checkpoint)),
        commands=distinct(p.command for p in made if p.command),
        discounts=distinct(float(d) for d in trained if isinstance(d, int | float)),
    )


def search_origin(run: RunRecord) -> RowSource:
    """What made the trees of a run."""
    candidates = setting(run.config, f"{SEARCHES}.trees.candidates")
    made, model = run.provenance, proposer_model(run.config)
    return RowSource(
        runs=(run.name,),
        commits=tuple(filter(None, [made.commit])),
        models=tuple(filter(None, [model])),
        seeds=(made.seed,),
        repeats=1,
        n=candidates if isinstance(candidates, int) else None,
        commands=tuple(filter(None, [made.command])),
    )


def together(made: Sequence[RowSource]) -> RowSource:
    """What made the rows of all of these."""
    several = ("runs", "commits", "models", "seeds", "checkpoints", "commands", "discounts")
    return RowSource(
        repeats=sum(one.repeats for one in made),
        n=max((one.n for one in made if one.n is not None), default=None),
        **{name: distinct(value for one in made for value in getattr(one, name)) for name in several},
    )


def setting(config: Mapping[str, JsonValue], key: str) -> JsonValue:
    """The setting `a.b` of a run's configuration; None where it has none."""
    found: JsonValue = dict(config)
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def candidates_wanted(config: Mapping[str, JsonValue], agent: str, seen: int | None) -> int | None:
    """N, the candidates that an agent asks for at a step, as the run keeps it, else `n_candidates`, unless `seen`, the
    most offered at a step, is 1 or more than that. None: unknown."""
    kept = _of_agent(config, agent, "n")
    if isinstance(kept, int):
        return kept
    usual = config.get("n_candidates")
    return usual if isinstance(usual, int) and (seen is None or 1 < seen <= usual) else seen


def _of_agent(config: Mapping[str, JsonValue], agent: str, name: str) -> JsonValue:
    """A setting that the run keeps for the agent alone; an agent's name may hold dots."""
    own = isinstance(agents := config.get(AGENTS), dict) and agents.get(agent)
    return own.get(name) if isinstance(own, dict) else None


def proposer_model(config: Mapping[str, JsonValue]) -> str | None:
    """The model that proposes in a run of this configuration: the chat endpoint's, else the local one."""
    found = setting(config, "chat.model") or setting(config, "model.path") or setting(config, "model")
    return found if isinstance(found, str) else None
