"""A ranker of a user's own loop finds what the agent with the same Q-function finds."""

from pathlib import Path

import pytest

import bestofq as bq
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import CheckpointError, ConfigError, InputError
from bestofq.core.observation import Element, Observation
from bestofq.learning.checkpoint import load_value, read_card
from bestofq_sites.shipped import POCKET_Q


@pytest.fixture(scope="module")
def ranker() -> bq.Ranker:
    return bq.Ranker.load()


async def test_each_step_is_ranked_as_the_agent_ranked_it(ranker: bq.Ranker, tmp_path: Path) -> None:
    models = Models(BestOfQSettings()).with_embedding(read_card(POCKET_Q).embed)
    agent = make_agent("best-of-q", models, load_value(POCKET_Q, embed=models.embedder.spec))
    with bq.Store.open(tmp_path) as store:
        [done] = await bq.play(agent, bq.load_suite("webshop"), store, tasks=1)
        episode = store.episode(done.id)
    chosen = 0
    for index, step in enumerate(episode.steps):
        past = [one.decision.candidate for one in episode.steps[:index]]
        found = await ranker.rank_async(episode.task.goal, step.observation, past, step.decision.candidates)
        assert found == (step.decision.chosen, pytest.approx(step.decision.scores, abs=1e-4))
        chosen += len(step.decision.candidates) > 1
    assert chosen


def test_words_actions_and_candidates_are_the_same_and_it_may_be_asked_again(ranker: bq.Ranker) -> None:
    button = Element(mark=7, role="button", name="Buy Now")
    seen = Observation(url="", title="", text="Red shoes, $20 Buy Now [7]", elements=(button,))
    buy = bq.Click(mark=7)
    same = [bq.Candidate(action=buy, label="click button Buy Now"), buy, "click button Buy Now"]
    _, scores = ranker.rank("red shoes", seen, ["back"], same)
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-5)
    assert ranker.rank("red shoes", seen.text, ["back"], ["back", same[2]])[1][1] == pytest.approx(scores[0], abs=1e-5)


async def test_what_cannot_be_ranked_is_refused(ranker: bq.Ranker, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 candidates"):
        await ranker.rank_async("red shoes", "", (), ())
    with pytest.raises(InputError, match="rank_async"):
        ranker.rank("red shoes", "", (), ["back"])
    with pytest.raises(CheckpointError):
        bq.Ranker.load(tmp_path)
    with pytest.raises(ConfigError, match="pat"):
        bq.Ranker.load(pat="pocket")
