"""Tokens and likelihoods of a served model, over real HTTP, from servers that tell them and servers that do not."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from broken_server import BrokenServer

from bestofq.core.errors import ConfigError
from bestofq.core.language import Reply, Request, ids_hash, user
from bestofq.models.chat import ChatModel
from bestofq.models.token_ids import check_token_ids

SAID = "click the button"
ASK = Request(messages=user("what next?"), n=2, seed=3, log_probs=True)


def tokens(request: Mapping[str, Any], reply: str) -> tuple[Sequence[int], Sequence[int]]:
    """A token a letter, and one that ends the reply."""
    return [ord(letter) for letter in request["messages"][0]["content"]], [*map(ord, reply), 0]


def served(**settings: Any) -> BrokenServer:
    options: dict[str, Any] = {"tokens": tokens, "log_prob": -0.25}
    return BrokenServer(lambda _: SAID, **(options | settings))


def endpoint(server: BrokenServer, **settings: object) -> ChatModel:
    return ChatModel.at(server.base_url, "m", **({"token_ids": True} | settings))


async def replies(server: BrokenServer) -> Sequence[Reply]:
    async with endpoint(server) as model:
        return (await model.generate(ASK)).replies


@pytest.mark.parametrize("sglang", [False, True], ids=["vLLM", "SGLang"])
async def test_replies_hold_their_tokens_likelihood_and_prompt(sglang: bool) -> None:
    async with served(sglang=sglang) as server:
        greedy, drawn = await replies(server)
    assert greedy.ids == drawn.ids == (*map(ord, SAID), 0)
    assert greedy.log_prob == -0.25 * len(greedy.ids)
    assert greedy.prompt_hash == ids_hash([*map(ord, "what next?")])
    assert all(request["return_token_ids"] and request["logprobs"] for request in server.requests)


async def test_only_where_it_is_set_and_likelihoods_are_wanted() -> None:
    async with served() as server:
        async with endpoint(server, token_ids=False) as model:
            [plain, _] = (await model.generate(ASK)).replies
        async with endpoint(server) as model:
            await model.generate(Request(messages=ASK.messages))
    assert (plain.ids, plain.prompt_hash) == ((), None)
    assert not any("return_token_ids" in request for request in server.requests)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tokens": None}, "ignores return_token_ids"),
        ({"refuses": ["return_token_ids"]}, "does not take return_token_ids"),
        ({"log_prob": None}, r"0 log-probabilities \(logprobs\) of 17 tokens"),
        ({"refuses": ["logprobs"]}, r"0 log-probabilities \(logprobs\) of 17 tokens"),
    ],
)
async def test_a_server_that_does_not_tell_them_is_refused_at_the_first_reply(
    settings: Mapping[str, Any], named: str
) -> None:
    async with served(**settings) as server:
        with pytest.raises(ConfigError, match=named) as refused:
            await replies(server)
    assert "token_ids=false" in str(refused.value)
    assert len(server.requests) <= 2


async def test_a_reply_that_was_cut_keeps_the_tokens_that_it_has() -> None:
    async with served(script=["truncated", "ok"]) as server:
        cut, whole = await replies(server)
    assert (cut.finish, whole.finish) == ("truncated", "stop")
    assert len(cut.ids) == len(SAID) // 2 + 1
    assert cut.log_prob == -0.25 * len(cut.ids)


def hot(request: Mapping[str, Any]) -> float:
    """As SGLang tells it: at the temperature of the draw, at 0 as at 1."""
    return -0.05 if 0 < request["temperature"] < 1 else -0.25


@pytest.mark.parametrize(("temperature", "calls"), [(1.0, 1), (0.7, 9)])
async def test_likelihoods_at_temperature_1_are_taken(temperature: float, calls: int) -> None:
    async with served() as server, endpoint(server) as model:
        await check_token_ids(model, temperature, "endpoints.chat.temperature", None)
    assert len(server.requests) == calls


async def test_likelihoods_at_the_sampling_temperature_are_refused() -> None:
    async with served(log_prob=hot) as server, endpoint(server) as model:
        await check_token_ids(model, 1.0, "endpoints.chat.temperature", None)
        with pytest.raises(ConfigError, match=r"--logprobs-mode raw_logprobs.*chat\.temperature=1"):
            await check_token_ids(model, 0.7, "endpoints.chat.temperature", None)
