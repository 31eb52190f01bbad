"""A proposer whose candidates one reply lists."""

import pytest

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Click, GoBack
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.observation import Element, Observation, Task
from bestofq.models.chat import ChatConfig
from bestofq.testing.scripted import ScriptedModel
from experiments.listing import ListingProposer, listing_prompt, make_proposer

STATE = State(
    task=Task(id="t", suite="s", goal="a lamp", start_url="http://a/"),
    observation=Observation(
        url="http://a/", title="", text="lamp [1]", elements=(Element(mark=1, role="link", name="lamp"),)
    ),
)


async def test_a_reply_lists_distinct_actions_that_the_page_allows() -> None:
    model = ScriptedModel(lambda _: ["?", " open it\nclick [1]\nclick [7]\nclick [1]\nback"])
    found = await ListingProposer(model, 1.0, 40).propose(STATE, 3)
    assert [each.action for each in found.candidates] == [Click(mark=1), GoBack()]
    assert {each.thought for each in found.candidates} == {"open it"}
    assert len((await ListingProposer(model, 1.0, 40).propose(STATE, 1)).candidates) == 1
    assert listing_prompt(STATE).endswith("goal: a lamp\nnext 3:")


async def test_a_reply_without_an_action_is_said() -> None:
    with pytest.raises(ReplyError, match="lists no action") as error:
        await ListingProposer(ScriptedModel(lambda _: [" open it"]), 1.0, 40).propose(STATE, 3)
    assert error.value.usage[0].calls == 1


def test_an_endpoint_was_not_taught_to_list() -> None:
    models = Models(BestOfQSettings(endpoints={"chat": ChatConfig(model="m", base_url="http://127.0.0.1:9/v1")}))
    with pytest.raises(ConfigError, match="leave chat out"):
        make_proposer(models)
