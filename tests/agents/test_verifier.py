"""The verifier: candidates ranked by the closing word of the model's own review of each."""

import numpy as np
import pytest

from bestofq.agents.prompting import review_prompt
from bestofq.agents.scorers.verifier import VerifierScorer, verdict_value
from bestofq.agents.selectors import GreedySelector
from bestofq.build.agents import make_agent
from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.errors import ConfigError, ModelError
from bestofq.core.language import Generation, Request
from bestofq.core.observation import Observation, Task
from bestofq.models.chat import ChatConfig
from bestofq.testing.scripted import ScriptedModel

STATE = State(
    task=Task(id="t", suite="s", goal="find a right handed lamp", start_url="u"),
    observation=Observation(url="u", title="t", text="x", elements=()),
)
REVIEWS = {
    "open mug": " lamp not, right handed fits: wrong",
    "next page": " moves on",
    "open lamp": " lamp fits, right handed fits: right",
    "open other lamp": " right handed fits, lamp fits: right",
}
CANDIDATES = [Candidate(action=Click(mark=i), label=label) for i, label in enumerate(REVIEWS, 1)]


class Reviewer:
    """Writes the scripted review of a candidate, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.model = ScriptedModel(self.reply)

    def reply(self, request: Request) -> list[str]:
        self.asked.append(request)
        return [next(REVIEWS[c.label] for c in CANDIDATES if review_prompt(STATE, c) == request.prompt)]


async def test_right_is_above_unclear_above_wrong_and_the_first_of_equals_is_taken() -> None:
    reviewer = Reviewer()
    scores = await VerifierScorer(reviewer.model).score(STATE, CANDIDATES)
    assert scores.values == (0.0, 0.5, 1.0, 1.0)
    assert GreedySelector().select(np.array(scores.values), np.random.default_rng(0)).index == 2
    [usage] = scores.usage
    assert (usage.role, usage.calls, usage.usd) == ("critic", 4, None)
    assert usage.tokens_in == sum(len(review_prompt(STATE, c).encode()) for c in CANDIDATES)
    assert usage.tokens_out == sum(map(len, REVIEWS.values()))


async def test_what_other_reviews_used_is_counted_where_one_fails() -> None:
    class Failing(ScriptedModel):
        async def generate(self, request: Request) -> Generation:
            if request.prompt == review_prompt(STATE, CANDIDATES[1]):
                raise ModelError("no reply")
            return await super().generate(request)

    with pytest.raises(ModelError, match="no reply") as caught:
        await VerifierScorer(Failing(Reviewer().reply)).score(STATE, CANDIDATES)
    (used,) = caught.value.usage
    assert (used.role, used.calls) == ("critic", 3)


async def test_one_candidate_is_not_asked_about() -> None:
    reviewer = Reviewer()
    assert await VerifierScorer(reviewer.model).score(STATE, CANDIDATES[:1]) == Scores(values=(1.0,))
    assert reviewer.asked == []


@pytest.mark.parametrize(
    ("review", "value"),
    [
        (" lamp fits: right", 1.0),
        ("lamp not: wrong.\n", 0.0),
        ("right handed fits, lamp", 0.5),  # cut off: the word is the goal's
        ("", 0.5),
        ("lamp fits: bright", 0.5),
    ],
)
def test_the_verdict_is_the_closing_word(review: str, value: float) -> None:
    assert verdict_value(review) == value


def test_a_model_that_writes_no_such_reviews_is_refused() -> None:
    chat = ChatConfig(model="gpt-4.1", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="verifier"):
        make_agent("verifier", Models(BestOfQSettings(chat=chat)))
