"""What choosing among the same candidates could reach at most: the suite's oracle chooses. No agent under test.

bestofq eval --agents own --set scorer=experiments.ceiling:Ceiling …
"""

from collections.abc import Sequence

from bestofq.config.models import Models
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ConfigError
from bestofq.envs.suites import make_suite
from experiments.ranking import judge_of


class Ceiling:
    """`Scorer`: 1 for what is right, 0 for the rest; the first of equals is taken, as where nothing is known."""

    def __init__(self, models: Models) -> None:
        """ConfigError where no oracle knows the suite."""
        if (judge := judge_of(make_suite(models.settings.suite))) is None:
            raise ConfigError(
                f"no oracle knows what is right on {models.settings.suite.name}: use webshop, booking or miniwob"
            )
        self._judge = judge

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N] of 0 and 1."""
        judged = self._judge(state, candidates)
        return Scores(values=tuple(map(float, judged.right)) if judged else (0.0,) * len(candidates))
