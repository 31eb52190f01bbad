"""What `bestofq estimate` says of Q-functions from held-out logs, beside what playing them then measured."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.core.logged import LoggedChoices
from bestofq.learning.checkpoint import load_value, read_card
from bestofq.recipes.estimate import held_out as ranked_apart
from bestofq.reports import off_policy
from bestofq.reports.ranks import auc
from bestofq.reports.stats import Difference, Doubles, Quantity, attempts_of, paired_difference
from bestofq.store.store import Store

ESTIMATORS: Mapping[str, Callable[[LoggedChoices, Doubles], Quantity]] = {
    "fitted Q evaluation": off_policy.fitted_q_evaluation,
    "importance sampling": off_policy.importance_sampling,
    "weighted importance sampling": off_policy.weighted_importance_sampling,
    "per-decision WIS": off_policy.per_decision_wis,
    "doubly robust": off_policy.doubly_robust,
    "weighted doubly robust": partial(off_policy.doubly_robust, weighted=True),
}


class Judged(NamedTuple):
    name: str
    auc: float
    predicted: dict[str, Difference | None]  # by estimator, lift over the first candidate
    measured: Difference


def judged(q: Path, held_out: Store, played: Store, episodes: int | None = None) -> Judged:
    """A Q-function in a folder named as the run in which it played."""
    card = read_card(q)
    models = Models(BestOfQSettings()).reading(card.embed)
    found = held_out.summaries(run="seed")
    values = load_value(q, embed=models.embedder.spec)
    log = ranked_apart(models, held_out, found, values, Console(quiet=True)).choices
    ranked, first = off_policy.greedy(log), off_policy.first(log)
    predicted = {name: of(log, ranked).minus(of(log, first)) for name, of in ESTIMATORS.items()}
    ours, theirs = (attempts_of(played.summaries(run=run)) for run in (q.name, "prompting"))
    measured = paired_difference(ours, theirs)
    assert measured is not None
    return Judged(q.name, auc(log).value or np.nan, predicted, measured)
