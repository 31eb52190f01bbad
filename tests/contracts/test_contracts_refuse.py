"""A part that breaks a promise fails its check, with a sentence that says which."""

import itertools

import pytest

from bestofq.core.decision import Episode, Proposal, State, Verdict
from bestofq.testing.contracts import check_judge, check_learner, check_proposer, check_scorer, check_suite
from bestofq.testing.scripted import ScriptedProposer, ScriptedScorer
from examples.own_suite import Lamps
from experiments.learners import reversed_outcomes

DRAWN = itertools.count()


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        (ScriptedScorer(lambda state, candidates: [0.0]), "2 candidates"),
        (ScriptedScorer(lambda state, candidates: [float("nan")] * len(candidates)), "finite"),
        (ScriptedScorer(lambda state, candidates: [next(DRAWN) for _ in candidates]), "again"),
    ],
)
async def test_a_scorer(scorer: ScriptedScorer, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        await check_scorer(scorer)


async def test_a_proposer_that_offers_an_action_twice() -> None:
    class Twice:
        async def propose(self, state: State, n: int) -> Proposal:
            one = await ScriptedProposer(lambda state, n: [" so\nclick [1]"]).propose(state, 1)
            return one.model_copy(update={"candidates": one.candidates * n})

    with pytest.raises(AssertionError, match="twice"):
        await check_proposer(Twice())


async def test_a_judge_whose_reward_does_not_fit() -> None:
    class Kind:
        name = "kind"

        async def judge(self, episode: Episode) -> Verdict:
            return Verdict(reward=0.5, outcome="success")

    with pytest.raises(AssertionError, match=r"success with reward 0\.5"):
        await check_judge(Kind())


def test_a_learner_that_prefers_what_failed() -> None:
    with pytest.raises(AssertionError, match="what led to success"):
        check_learner(reversed_outcomes)


async def test_a_suite_whose_splits_share_tasks() -> None:
    with pytest.raises(AssertionError, match="two splits"):
        await check_suite(Lamps(["red"]))
