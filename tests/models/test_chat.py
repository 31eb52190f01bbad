"""The chat client against an endpoint that fails as endpoints do, over real HTTP on loopback."""

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import formatdate
from math import nan
from typing import Any

import httpx
import openai
import pytest
from broken_server import BrokenServer, Fault

from bestofq.agents.json_replies import json_of
from bestofq.core.errors import BestOfQError, BudgetError, ConfigError, ContextError, ModelError, ReplyError, SetupError
from bestofq.core.language import Generation, Reply, Request, user
from bestofq.models import chat
from bestofq.models import endpoint as bounds
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.endpoint import RateLimit, api_error_of
from bestofq.models.prices import Budget, Price, price_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
KEY = "sk-this-must-never-be-written-down"
ENDPOINT = ("m at http://127.0.0.1:9/v1", "K", 90.0)
ASK = Request(messages=user("hello"), greedy=False, schema=SCHEMA)


def good(_: Mapping[str, Any]) -> str:
    return '{"a": 1}'


def model(server: BrokenServer, **settings: Any) -> ChatModel:
    return ChatModel.at(server.base_url, "any", **{"deadline": 5.0, **settings})


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change how long an endpoint is waited for."""

    def change(**constants: float) -> None:
        for name, value in constants.items():
            monkeypatch.setattr(chat, name, value)

    return change


WRONG = [("SSL_CERT_FILE", "/nowhere"), ("SSL_CERT_FILE", __file__), ("ALL_PROXY", "ftp://proxy.test")]


@pytest.mark.parametrize(("name", "value"), [*WRONG, ("http_proxy", "nonsense"), ("HTTP_PROXY", "http://[::1")])
async def test_a_wrong_proxy_or_certificate_of_the_environment_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=f"{name}={re.escape(repr(value))}.*: correct"):
        await ChatModel.at("http://127.0.0.1:9/v1", "m", attempts=1).generate(ASK)


async def test_a_reply_with_its_usage() -> None:
    async with BrokenServer(good) as server, model(server) as asked:
        said = await asked.generate(ASK)
    [reply] = said.replies
    assert (json_of(reply, dict), reply.finish) == ({"a": 1}, "stop")
    assert (said.usage.tokens_in, said.usage.tokens_out, said.usage.calls) == (100, 20, 1)
    sent = server.requests[0]
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


PASSING: list[Fault] = ["429", "408", "500", "503", "reset", "silence"]
PASSING += ["drip", "garbage", "page", "half", "cut", "deep"]


@pytest.mark.parametrize("script", [*([fault] * 2 for fault in PASSING), ["shape"] * 6], ids=lambda script: script[0])
async def test_what_passes_is_tried_again(script: list[Fault], waiting: Callable[..., None]) -> None:
    waiting(ATTEMPT_SHARE=0.1, FIRST_SHARE=0.1)
    async with BrokenServer(good, script=script) as server, model(server) as asked:
        async with asyncio.timeout(10):
            [reply] = (await asked.generate(ASK)).replies
    assert (json_of(reply, dict), server.seen.total()) == ({"a": 1}, len(script) + 1)


async def test_tokens_that_were_not_counted_have_no_price() -> None:
    script: list[Fault] = ["uncounted", "miscounted", "overcounted"]
    async with BrokenServer(good, script=script) as server, model(server, usd_in=1.0, usd_out=2.0) as asked:
        replies = [await asked.generate(ASK) for _ in range(4)]
    counted = [(said.usage.tokens_in, said.usage.tokens_out, said.usage.usd) for said in replies]
    assert counted == [*[(0, 0, None)] * 3, (100, 20, pytest.approx(140e-6))]


async def test_a_budget_is_not_kept_where_tokens_are_not_counted() -> None:
    async with BrokenServer(good, script=["uncounted"]) as server, model(server, usd_in=1.0, usd_out=2.0) as asked:
        asked.budget.limit = 1.0
        with pytest.raises(ConfigError, match=r"--budget 1 cannot be kept: any at .* does not say how many tokens"):
            await asked.generate(ASK)
    assert server.seen.total() == 1
    script: list[Fault] = ["ok", "uncounted"]
    async with BrokenServer(good, script=script) as server, model(server, usd_in=1.0, usd_out=2.0) as asked:
        asked.budget.limit = 1.0
        counted = await asked.generate(ASK)
        await asked.generate(ASK)
        assert asked.budget.spent == 2 * (counted.usage.usd or 0) > 0  # as much as the dearest before it


async def test_calls_that_wait_for_their_turn_are_not_sent_once_the_budget_is_spent() -> None:
    priced = {"usd_in": 1.0, "usd_out": 2.0, "concurrency": 1}
    async with BrokenServer(good) as server, model(server, **priced) as asked:
        asked.budget.limit = 200e-6  # of two calls
        said = await asyncio.gather(*(asked.generate(ASK) for _ in range(9)), return_exceptions=True)
    assert [type(one) for one in said] == [Generation] * 2 + [BudgetError] * 7
    assert server.seen.total() == 2


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy and sampled", "one by one"])
async def test_what_was_paid_before_a_later_call_fails_is_counted(greedy: bool) -> None:
    asking = replace(ASK, n=3, greedy=greedy, role="judge")
    broken = BrokenServer(good, script=["ok", "ok", "500"])
    async with broken as server, model(server, attempts=1, usd_in=1.0, usd_out=2.0) as asked:
        with pytest.raises(ModelError) as caught:
            await asked.generate(asking)
    (used,) = caught.value.usage
    assert (used.role, used.calls, used.tokens_in, used.tokens_out) == ("judge", 2, 200, 40)
    assert used.usd == pytest.approx(asked.budget.spent) == pytest.approx(280e-6)
    assert used.seconds > 0


REFUSED: list[tuple[Fault, type[BestOfQError], str, int]] = [
    ("400", ConfigError, "model", 1),
    ("401", ConfigError, "OPENAI_API_KEY", 1),
    ("403", ConfigError, "OPENAI_API_KEY", 1),
    ("404", ConfigError, "base_url", 1),
    ("quota", ConfigError, "quota .* OPENAI_API_KEY", 1),
    ("overflow", ContextError, "too long", 1),
    ("413", ContextError, "too long", 1),
    ("format", ConfigError, "no structured output", 2),  # the second request without it
]


@pytest.mark.parametrize(("fault", "error", "mend", "sent"), REFUSED)
async def test_what_does_not_pass_fails_at_once_and_names_the_setting(
    fault: Fault, error: type[BestOfQError], mend: str, sent: int
) -> None:
    async with BrokenServer(good, {fault: 1.0}) as server, model(server) as asked:
        with pytest.raises(error, match=mend):
            await asked.generate(ASK)
    assert server.seen.total() == sent


@pytest.mark.parametrize(
    ("fault", "finish", "said"),
    [("truncated", "truncated", "cut off after 20"), ("empty", "empty", "empty"), ("refusal", "refused", "refused")],
)
async def test_replies_that_are_none_are_told_apart(fault: Fault, finish: str, said: str) -> None:
    async with BrokenServer(good, script=[fault]) as server, model(server) as asked:
        [reply] = (await asked.generate(replace(ASK, schema=None))).replies
    assert reply.finish == finish
    with pytest.raises(ReplyError, match=said):
        json_of(reply, dict)


async def test_settings_that_a_model_does_not_take_are_found_out_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = ("max_tokens", "max_completion_tokens", "temperature")
    async with BrokenServer(good, refuses=("max_tokens", "temperature")) as server, model(server, attempts=1) as asked:
        await asyncio.gather(asked.generate(ASK), asked.generate(ASK))
        await asked.generate(ASK)
    sent = [[name for name in settings if name in request] for request in server.requests]
    assert 1 <= sent.count(["max_tokens", "temperature"]) <= 2
    assert 1 <= sent.count(["max_completion_tokens", "temperature"]) <= 2
    assert sent.count(["max_completion_tokens"]) == 3
    assert asked.refused == {"max_tokens", "temperature"}
    assert ["no temperature" in record.message for record in caplog.records] == [True]  # said once


@pytest.mark.parametrize(
    ("refused", "sent_as"), [("seed", "seed"), ("logprobs", "logprobs"), ("json_schema", "response_format")]
)
async def test_an_endpoint_that_refuses_a_setting_is_asked_without(refused: str, sent_as: str) -> None:
    asking = replace(ASK, seed=3, log_probs=True)
    async with BrokenServer(good, refuses=(refused,), log_prob=-0.5) as server, model(server, attempts=1) as asked:
        said = [await asked.generate(asking), await asked.generate(asking)]
    assert [json_of(one.replies[0], dict) for one in said] == [{"a": 1}, {"a": 1}]
    assert [sent_as in request for request in server.requests] == [True, False, False]
    assert {one.replies[0].log_prob is None for one in said} == {refused == "logprobs"}


async def test_an_endpoint_that_gives_one_reply_at_a_time_is_asked_so() -> None:
    asking = replace(ASK, n=3, seed=3)
    async with BrokenServer(good, refuses=("n",)) as server, model(server, attempts=1) as asked:
        said = [await asked.generate(asking), await asked.generate(asking)]
    assert [len(one.replies) for one in said] == [3, 3]
    sent = [(request.get("n"), request["seed"]) for request in server.requests]
    one_by_one = [(None, 3), (None, 4), (None, 5)]
    assert sent == [(3, 3), *one_by_one, *one_by_one]


@pytest.mark.parametrize(
    ("complaint", "setting"),
    [
        ("Unrecognized request argument supplied: logprobs", "logprobs"),
        ("You are not allowed to request logprobs from this model", "logprobs"),
        ("[{'type': 'extra_forbidden', 'loc': ('body', 'logprobs'), 'msg': 'Extra inputs'}]", "logprobs"),
        ("Only n = 1 is supported", "n"),
        ("n > 1 is not supported for this model", "n"),
        ("[{'type': 'less_than_equal', 'loc': ['body', 'n'], 'msg': 'Input should be less than or equal to 1'}]", "n"),
        ("Only one candidate can be specified in the current model", "n"),
        ("invalid temperature: only 1 is allowed for this model", "temperature"),
        ("Input validation error: `temperature` must be strictly positive", "temperature"),
        ("no such json_schema in {'model': 'any', 'n': 3}", "schema"),
        ("no such json_schema:\\n must be an object", "schema"),  # a line break, escaped
        ("Unsupported parameter: 'seed' is not supported with this model.", "seed"),
        ("[{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted'}]", "seed"),
        ("no such json_schema in {'model': 'any', 'seed': 3}", "schema"),  # repeats what it was sent
    ],
)
def test_a_refused_setting_is_told_from_one_that_is_repeated(complaint: str, setting: str) -> None:
    for status in (400, 422):
        response = httpx.Response(status, request=httpx.Request("POST", "http://any/"))
        error = openai.APIStatusError(complaint, response=response, body=None)
        assert api_error_of(error, *ENDPOINT).setting == setting


async def test_log_probabilities_of_words_make_that_of_a_reply() -> None:
    asking = replace(ASK, log_probs=True)
    async with BrokenServer(good, log_prob=-0.5) as server, model(server) as asked:
        said, unasked = await asked.generate(asking), await asked.generate(ASK)
    assert said.replies[0].log_prob == -0.5 * len(said.replies[0].text.split())
    assert unasked.replies[0].log_prob is None
    async with BrokenServer(good) as server, model(server) as asked:
        assert (await asked.generate(asking)).replies[0].log_prob is None


@pytest.mark.parametrize("fault", ["silence", "drip"])
@pytest.mark.parametrize("share", [0.5, 75.0])
async def test_nothing_can_pass_the_deadline(fault: Fault, share: float, waiting: Callable[..., None]) -> None:
    waiting(ATTEMPT_SHARE=share)
    async with BrokenServer(good, {fault: 1.0}) as server, model(server, deadline=0.4) as asked:
        async with asyncio.timeout(5):
            with pytest.raises(ModelError, match=r"no reply in [1-3] attempts"):
                await asked.generate(ASK)


async def test_a_slow_endpoint_is_waited_for_and_a_fast_one_that_falls_silent_is_not(
    caplog: pytest.LogCaptureFixture, waiting: Callable[..., None]
) -> None:
    waiting(WAIT_SECONDS=0.2)
    async with BrokenServer(good, seconds=0.7) as server, model(server, deadline=0.4) as asked:
        for _ in range(2):
            await asked.generate(ASK)
    assert server.seen.total() == 2  # no attempt was cancelled and sent again
    assert "waiting for any at http://" in caplog.text
    silent = BrokenServer(good, {"silence": 1.0}, script=["ok"])
    async with silent as server, model(server, deadline=0.4, max_tokens=10) as asked, asyncio.timeout(3):
        await asked.generate(ASK)
        with pytest.raises(ModelError, match="in 2 attempts"):
            await asked.generate(ASK)


async def test_waits_are_held_to_the_deadline_too(waiting: Callable[..., None]) -> None:
    waiting(BACKOFF_SECONDS=0.3, MAX_BACKOFF_SECONDS=0.3)
    async with BrokenServer(good, {"500": 1.0}) as server, model(server, deadline=0.1) as asked:
        with pytest.raises(ModelError, match="in 1 attempts"):
            await asked.generate(ASK)


async def test_retry_after_is_honoured(waiting: Callable[..., None]) -> None:
    waiting(BACKOFF_SECONDS=30.0, MAX_BACKOFF_SECONDS=30.0)
    async with BrokenServer(good, script=["429"], retry_after="0.01") as server, model(server) as asked:
        began = time.monotonic()
        await asked.generate(ASK)
        assert time.monotonic() - began < 5  # our own back-off would have been 15 s


async def test_a_retry_after_of_nothing_is_no_reason_to_hurry(waiting: Callable[..., None]) -> None:
    waiting(BACKOFF_SECONDS=0.1, MAX_BACKOFF_SECONDS=1.0)
    async with BrokenServer(good, script=["429"] * 3) as server, model(server) as asked:
        began = time.monotonic()
        await asked.generate(ASK)
    assert time.monotonic() - began > (0.1 + 0.2 + 0.4) / 2


NEITHER = ("", "soon", "nan", "inf", "Mon, 99 Foo 2026")
WAITS: list[tuple[str | int, float | None]] = [("7", 7), ("0.5", 0.5), ("-3", 0), (3600, 3600), (-3600, 0)]


@pytest.mark.parametrize(("header", "wait"), [*WAITS, *((other, None) for other in NEITHER)])
def test_retry_after_is_a_number_or_a_date_or_else_our_own_back_off(header: str | int, wait: float | None) -> None:
    """A whole number stands for the date so many seconds from now."""
    said = formatdate(time.time() + header, usegmt=True) if isinstance(header, int) else header
    request = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx.Response(429, headers={"Retry-After": said}, request=request)
    found = api_error_of(openai.RateLimitError("slow down", response=response, body=None), *ENDPOINT)
    assert found.kind == "overload"
    assert found.wait == (wait if wait is None else pytest.approx(wait, abs=100 if wait == 3600 else 0))


async def test_overload_halves_the_calls_in_flight_and_success_brings_them_back() -> None:
    async with BrokenServer(good, script=["429"], seconds=0.005) as server, model(server, concurrency=8) as asked:
        await asked.generate(ASK)
        assert asked._pace.allowed == 4
        await asyncio.gather(*(asked.generate(ASK) for _ in range(60)))
        assert asked._pace.allowed == 8
        assert server.most_at_once <= 8


async def test_a_dead_endpoint_is_probed_and_the_run_goes_on_when_it_is_back(
    caplog: pytest.LogCaptureFixture, waiting: Callable[..., None]
) -> None:
    waiting(TRIP_AFTER=4, COOLDOWN_SECONDS=0.1)
    dead = BrokenServer(good, script=["500"] * 12, seconds=0.001)
    async with dead as server, model(server, concurrency=4, attempts=50) as asked:
        began = time.monotonic()
        replies = await asyncio.gather(*(asked.generate(ASK) for _ in range(8)))
        assert len(replies) == 8
        assert time.monotonic() - began > 0.3  # it paused, and probed one by one
        assert server.seen["500"] == 12
    assert [record.name for record in caplog.records].count("bestofq.models.chat") == 1  # said once


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://localhost:9/v1", "http://nowhere.invalid/v1"])
async def test_a_server_that_was_never_there_is_not_waited_for(address: str, waiting: Callable[..., None]) -> None:
    waiting(STARTING=0.2, TRIP_AFTER=3, COOLDOWN_SECONDS=0.3, BACKOFF_SECONDS=0.05)
    async with ChatModel.at(address, "m", attempts=10_000, deadline=600.0) as asked, asyncio.timeout(20):
        with pytest.raises(SetupError, match=r"m at .*: no connection .*: start the server there"):
            await asyncio.gather(*(asked.generate(ASK) for _ in range(5)))
    async with ChatModel.at(address, "m", attempts=1) as asked:
        with pytest.raises(SetupError, match="start the server there"):
            await asked.generate(ASK)


async def test_a_server_that_was_there_once_is_waited_for(waiting: Callable[..., None]) -> None:
    waiting(STARTING=0.0)
    async with BrokenServer(good, script=["500"]) as server, model(server, attempts=2) as asked:
        await asked.generate(ASK)
        await server.__aexit__()
        with pytest.raises(ModelError, match="gave no reply in 2 attempts"):
            await asked.generate(ASK)


ECHOED: list[Fault] = ["ok", "429", "500", "503", "401", "404", "garbage", "page", "overflow", "refusal"]


@pytest.mark.parametrize("fault", ECHOED)
async def test_the_key_stays_out_of_all_that_is_kept_though_the_endpoint_echoes_it(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    said = ""
    async with BrokenServer(good, {fault: 1.0}, echo=True) as server, model(server, attempts=2) as asked:
        try:
            reply = await asked.generate(ASK)
            said = f"{reply!r}"
        except BestOfQError as error:
            said = "".join(traceback.format_exception(error))
        said += repr(asked)
    assert said
    assert KEY not in said
    assert KEY not in caplog.text
    assert fault != "garbage" or "[OPENAI_API_KEY]" in caplog.text  # the HTTP client quotes bytes that are no HTTP
    assert fault != "ok" or "[OPENAI_API_KEY]" in said  # it was there


async def test_the_key_stays_out_of_logged_tracebacks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some releases of the SDK log the exception, which quotes the answer."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    async with BrokenServer(good) as server, model(server):
        try:
            raise ConnectionError(f"illegal status line: {KEY}")
        except ConnectionError:
            logging.getLogger("openai._base_client").debug("Encountered Exception", exc_info=True)
    assert "illegal status line: [OPENAI_API_KEY]" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("around", ["\r", "\n", " \t\r\n"])
async def test_line_breaks_around_a_key_are_left_out(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{around}{KEY}{around}")
    async with BrokenServer(good, echo=True) as server, model(server, attempts=1) as asked:
        [reply] = (await asked.generate(ASK)).replies
    assert "Bearer [OPENAI_API_KEY]" in reply.text


@pytest.mark.parametrize("key", [f"“{KEY}”", f"{KEY}\n{KEY}"])
async def test_a_key_that_no_request_can_carry_is_refused_unseen(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    async with BrokenServer(good) as server:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY holds more than") as refused:
            model(server)
    assert KEY not in str(refused.value)


async def test_a_key_is_not_cut_in_half_by_a_long_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are shortened to 200 characters: what is left of a key at the edge must not be its beginning."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY * 20)
    async with BrokenServer(good, {"overflow": 1.0}, echo=True) as server, model(server) as asked:
        with pytest.raises(ContextError) as raised:
            await asked.generate(ASK)
    assert KEY[:12] not in str(raised.value)


WRAPPED = ['{"a": 1}', '```json\n{"a": 1}\n```', 'Sure! Here it is: {"a": 1}. Anything else?', ' {"a": 1}{"b"']
WRAPPED += ['In {braces}: {"a": 1}', '<think>Not {"a": 2}.</think>\n{"a": 1}']
WRAPPED += ['Is it {"a": 2}?\n</think>{"a": 1}']  # begun in the prompt


@pytest.mark.parametrize("text", WRAPPED)
def test_json_is_found_in_its_wrapping_and_not_in_the_thinking(text: str) -> None:
    assert json_of(Reply(text), dict) == {"a": 1}
    assert json_of(Reply('{"a": "<think>"}'), dict) == {"a": "<think>"}


HALF = ["", "click [7]", '{"a": "', '{"a": {"b": "c}', "[1, 2]", '{"a":' * 10_000, '<think>Perhaps {"a": 2}, or']
LONG = ["{" * 300_000, '{"' * 150_000, '{"a":"' * 50_000, '{"a" 1 ' * 40_000]


@pytest.mark.parametrize("text", [*HALF, *LONG])
def test_half_a_reply_is_none_and_no_reply_blocks_the_loop(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ReplyError):
        json_of(Reply(text), dict)
    assert time.perf_counter() - began < 1.0
    assert json_of(Reply('{so} {it} {goes}: ```{"a": {"b": 1}}```'), dict) == {"a": {"b": 1}}


async def test_no_other_host_is_asked_or_believed() -> None:
    async with BrokenServer(lambda _: '{"forged": 1}') as other:
        faults = BrokenServer(good, script=["elsewhere", "ok"], other=other.base_url)
        async with faults as server, model(server, attempts=2) as asked:
            with pytest.raises(ConfigError, match=other.base_url):
                await asked.generate(ASK)
            assert json_of((await asked.generate(ASK)).replies[0], dict) == {"a": 1}
        assert not other.requests


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BODY_LIMIT", 2**20)
    async with BrokenServer(good, script=["flood", "flood", "ok"]) as server, model(server, attempts=2) as asked:
        with pytest.raises(ModelError, match="1 MiB"):
            await asked.generate(ASK)
        assert (await asked.generate(ASK)).replies[0].text == good({})


def test_what_is_set_comes_before_the_published_price() -> None:
    assert ChatConfig(model="gpt-4.1").price() == price_of("openai/gpt-4.1-2025-04-14") == (2, 8)
    assert ChatConfig(model="gpt-4.1", usd_in=1.0).price() == (1, 8)
    assert ChatConfig(model="another").price() == (None, None)


@pytest.mark.parametrize("limit", [nan, -1.0])
def test_a_budget_is_a_number_of_dollars(limit: float) -> None:
    with pytest.raises(ConfigError, match=f"--budget {limit:g} is no limit: give USD, 0 or more"):
        Budget(limit)


def test_an_unknown_price_is_never_0() -> None:
    assert Price(None, None).usd(100, 20) is None
    assert Price(1.0, None).usd(100, 0) is None
    assert Price(0.0, 0.0).usd(100, 20) == 0
    assert Price(2.0, 8.0).usd(1_000_000, 500_000) == 6.0


async def test_a_call_that_is_given_up_as_its_turn_comes_leaves_it_to_the_next() -> None:
    pace = RateLimit(1)
    taken: list[str] = []

    async def call(name: str) -> None:
        async with pace.turn():
            taken.append(name)

    async with pace.turn():
        first, second = asyncio.create_task(call("first")), asyncio.create_task(call("second"))
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert taken == ["second"]


async def test_all_that_wait_get_their_turn_though_the_breaker_opens() -> None:
    pace = RateLimit(3, trip_after=2, cooldown=0.02)
    at_once, most = 0, 0

    async def call(number: int) -> None:
        nonlocal at_once, most
        async with pace.turn():
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.001)
            at_once -= 1
            if number < 6:
                pace.record_failure()
            else:
                pace.record_success()

    async with asyncio.timeout(5):
        await asyncio.gather(*(call(number) for number in range(60)))
    assert most == 3
    assert not pace.paused
