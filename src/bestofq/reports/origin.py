"""Where a row's numbers come from: runs, commit, model, seed, N, Q-function and command, as the store keeps them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import JsonValue

from bestofq.reports.rows import BASELINE
from bestofq.reports.stats import distinct, group_by
from bestofq.reports.table import RowSource
from bestofq.store.configuration import AGENTS
from bestofq.store.records import RunRecord
from bestofq.store.store import Store
from bestofq.store.tally import Tally

Runs = Mapping[tuple[str, str], RunRecord]
"""By the name of the store, which is empty if there is only one, and the run's."""


def runs_of(store: Store) -> Runs:
    return {("", run.name): run for run in store.runs()}


def origin(tallies: Iterable[Tally], runs: Runs) -> RowSource:
    """What made these episodes. Commits and commands are those that began the runs."""
    by_run = group_by((t for t in tallies if t.status == "finished"), lambda t: (t.store, t.run))
    repeats = [np.concatenate([t.attempts[:, 1] for t in some]) for some in by_run.values()]
    requested = [requested_candidates(runs[key], t.agent) for key, some in by_run.items() for t in some]
    checkpoints = (t.checkpoint for some in by_run.values() for t in some if t.checkpoint)
    return run_origin([runs[key] for key in by_run], max(filter(None, requested), default=None)).model_copy(
        update={"repeats": sum(len(np.unique(each)) for each in repeats), "checkpoints": distinct(checkpoints)}
    )


def run_origin(runs: Sequence[RunRecord], n: int | None) -> RowSource:
    """What made a pass in each of these runs, with N candidates a step."""
    return RowSource(
        runs=distinct(run.name for run in runs),
        commits=distinct(run.provenance.commit for run in runs if run.provenance.commit),
        models=distinct(model for run in runs if (model := proposer_model(run.config))),
        seeds=distinct(run.provenance.seed for run in runs),
        commands=distinct(run.provenance.command for run in runs if run.provenance.command),
        repeats=len(runs),
        n=n,
    )


def requested_candidates(run: RunRecord, agent: str) -> int | None:
    """The candidates a step that a run keeps for an agent. Prompting requests one; None: not known."""
    kept = run.config.get(AGENTS)
    own = kept.get(agent) if isinstance(kept, dict) else None  # the name may hold dots
    n = own.get("n") if isinstance(own, dict) else 1 if agent == BASELINE else None
    return n if isinstance(n, int) else None


def setting(config: Mapping[str, JsonValue], key: str) -> JsonValue:
    """The setting `a.b` of a run's configuration; None without it."""
    found: JsonValue = dict(config)
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def proposer_model(config: Mapping[str, JsonValue]) -> str | None:
    """What proposes in a run of this configuration: the chat endpoint's model, the user's own part, else the local."""
    names = ("chat.model", "proposer", "model.path", "model")
    return next((found for name in names if isinstance(found := setting(config, name), str)), None)
