"""What every language model promises (`core.protocols.LanguageModel`)."""

from collections.abc import AsyncIterator

import pytest
from contract_state import endpoint

from bestofq.core.errors import ConfigError
from bestofq.core.language import Message, Request, user
from bestofq.core.observation import Screenshot
from bestofq.core.protocols import LanguageModel
from bestofq.models.local import LocalModel
from bestofq.testing import ScriptedModel

PROMPT = "goal: a red lamp under 20 dollars\npage:\nRed [1]"
SHOT = Screenshot(sha256="0", media_type="image/png", width=1, height=1)


@pytest.fixture(params=["local", "endpoint", "scripted"])
async def model(request: pytest.FixtureRequest) -> AsyncIterator[LanguageModel]:
    match request.param:
        case "local":
            yield LocalModel.load(device="cpu", precision="float32")
        case "endpoint":
            async with endpoint("click [1]\nno") as asked:
                yield asked
        case _:
            yield ScriptedModel(lambda asked: ["click [1]", "click [2]", "click [3]"])


@pytest.mark.parametrize(("n", "greedy"), [(1, True), (3, True), (2, False)])
async def test_it_gives_as_many_replies_as_are_drawn_and_counts_them(
    model: LanguageModel, n: int, greedy: bool
) -> None:
    request = Request(messages=user(PROMPT), n=n, greedy=greedy, max_tokens=4, seed=1)
    found = await model.generate(request)
    assert len(found.replies) == n
    used = found.usage("proposer")
    assert (used.tokens_in, used.tokens_out, used.calls) == (found.prompt_tokens, found.reply_tokens, found.calls)
    assert min(used.tokens_in, used.tokens_out, used.calls) >= 1
    assert all(reply.log_prob is None or reply.log_prob <= 0 for reply in found.replies)


async def test_the_same_request_gives_the_same_replies_and_its_greedy_one_alone(model: LanguageModel) -> None:
    many = Request(messages=user(PROMPT), n=3, max_tokens=4, seed=1)
    alone = Request(messages=user(PROMPT), max_tokens=4)
    one, two, first = [[r.text for r in (await model.generate(request)).replies] for request in (many, many, alone)]
    assert one == two
    assert one[:1] == first


async def test_messages_are_read_in_their_order(model: LanguageModel) -> None:
    request = Request(messages=[*user("a", system="s"), Message(role="assistant", text="b")], max_tokens=2)
    assert request.prompt == "s\na\nb"
    assert len((await model.generate(request)).replies) == 1


async def test_what_a_model_cannot_do_is_refused() -> None:
    local = LocalModel.load(device="cpu", precision="float32")
    with pytest.raises(ConfigError, match="pictures"):
        await local.generate(Request(messages=user("where?", (SHOT,))))
    async with endpoint("click [1]") as asked:
        cut = await asked.generate(Request(messages=user(PROMPT), n=2, one_line=True))
    assert [reply.text for reply in cut.replies] == ["click [1]"] * 2
