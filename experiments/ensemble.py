"""Several Q-functions of one training set, other seeds, as one scorer, that is cautious or not.

A candidate's score is how much better than a base candidate the Q-functions find it on average, less `caution` times
how far they disagree. Where they are not sure, the base is taken: the proposer's first, or the verifier's choice.

bestofq eval --agents own --set scorer=experiments.ensemble:cautious …  # the folders, by commas, in BESTOFQ_ENSEMBLE
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bestofq.config.agents import make_q_scorer, make_verifier
from bestofq.config.models import Models
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ConfigError
from bestofq.core.transitions import Floats
from bestofq.learning.checkpoint import load_value

FOLDERS = "BESTOFQ_ENSEMBLE"


class Ensemble:
    """`Scorer`: the mean over Q-functions of Q(s, a) - Q(s, base), less `caution` standard deviations of it."""

    def __init__(self, models: Models, *, caution: float, verified: bool = False) -> None:
        """ConfigError where the environment names no two folders of Q-functions."""
        folders = [Path(one) for one in os.environ.get(FOLDERS, "").split(",") if one]
        if len(folders) < 2:
            raise ConfigError(f"{FOLDERS} names {len(folders)} Q-functions, fewer than 2: set it to FOLDER,FOLDER")
        values = (load_value(folder, embed=models.embedder.spec) for folder in folders)
        self._scorers = [make_q_scorer(models, one) for one in values]
        self._caution = caution
        self._verifier = make_verifier(models) if verified else None

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N]; 0 for the base. The vectors are embedded once and kept for the others."""
        found = [await scorer.score(state, candidates) for scorer in self._scorers]
        base = 0
        if self._verifier is not None:
            found.append(await self._verifier.score(state, candidates))
            base = int(np.argmax(found[-1].values))
        values = np.array([one.values for one in found[: len(self._scorers)]], np.float32)
        scores = lower_bound(values, self._caution, base)
        return Scores(values=tuple(scores.tolist()), usage=tuple(used for one in found for used in one.usage))


def lower_bound(values: Floats, caution: float, base: int = 0) -> Floats:
    """[N] of Q-values [K, N] of K Q-functions."""
    gains = values - values[:, [base]]
    bound: Floats = gains.mean(0) - caution * gains.std(0, ddof=1)
    return bound


mean = partial(Ensemble, caution=0.0)
cautious = partial(Ensemble, caution=1.0)
very_cautious = partial(Ensemble, caution=2.0)
most_cautious = partial(Ensemble, caution=4.0)
verified = partial(Ensemble, caution=1.0, verified=True)
cautious_verified = partial(Ensemble, caution=2.0, verified=True)
