"""What real servers and models reply, over real HTTP: each form is one call and the right actions, or one sentence."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from broken_server import BrokenServer
from shop_page import STATE

from bestofq.agents.proposers import ChatProposer
from bestofq.core.actions import Action, Click, GoBack, Press, Scroll, Write
from bestofq.core.decision import Proposal
from bestofq.core.errors import BestOfQError, ConfigError, ContextError, ModelError
from bestofq.core.language import Message, Reply, Request, ids_hash, user
from bestofq.models.chat import ChatModel, check_token_ids
from bestofq.testing.fault_server import FaultServer, send

FIRST = {"thought": "a", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": True}}
SECOND = {"thought": "b", "note": "", "action": {"type": "scroll", "direction": "down"}}
WRITE, DOWN = Write(mark=1, text="lamp", enter=True), Scroll(direction="down")
BOTH = json.dumps({"candidates": [FIRST, SECOND]})
DRAFT = json.dumps({"candidates": [{"thought": "draft", "note": "", "action": {"type": "go_back"}}]})
FINAL = json.dumps({"candidates": [SECOND]})
CALL = '{"name": "click", "arguments": {"element": 2}}'


@dataclass(kw_only=True)
class RawServer(FaultServer):
    """Answers with these statuses and bodies, the last one again and again."""

    answers: list[tuple[int, Any]] = field(default_factory=list)

    async def _answer(self, request: Mapping[str, Any], head: Mapping[str, str], writer: asyncio.StreamWriter) -> bool:
        status, body = self.answers[min(len(self.requests), len(self.answers)) - 1]
        return await send(writer, status, json.dumps(body).encode())


def serve(*answers: tuple[int, Any]) -> RawServer:
    return RawServer(str, answers=list(answers))


def completion(message: Any, finish: str | None = "stop") -> tuple[int, Any]:
    message = {"content": message} if isinstance(message, str) else message
    used = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return 200, {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": used}


async def propose(server: RawServer, n: int = 3) -> Proposal:
    async with server, ChatModel.at(server.base_url, "any", attempts=5) as model:
        return await ChatProposer(model, candidates="list").propose(STATE, n)


def acting(action: Any, **beside: Any) -> str:
    return json.dumps({"candidates": [{"thought": "a", "note": "", "action": action, **beside}]})


def function(*arguments: Any) -> Mapping[str, Any]:
    return {"tool_calls": [{"type": "function", "function": {"name": "back", "arguments": a}} for a in arguments]}


FORMS: dict[str, tuple[Any, list[Action]]] = {
    "reasoning_content": ({"content": "", "reasoning_content": BOTH}, [WRITE, DOWN]),
    "reasoning": ({"content": None, "reasoning": BOTH}, [WRITE, DOWN]),
    "reasoning with a draft": ({"content": None, "reasoning": f"{DRAFT}, no: {BOTH}"}, [WRITE, DOWN]),
    "reasoning and a reply": ({"content": BOTH, "reasoning_content": DRAFT}, [WRITE, DOWN]),
    "tool call": ({"content": None, **function(BOTH)}, [WRITE, DOWN]),
    "tool call of an object": ({"content": "", **function(json.loads(BOTH))}, [WRITE, DOWN]),
    "tool calls": ({"content": None, **function(json.dumps(FIRST), json.dumps(SECOND))}, [WRITE, DOWN]),
    "function call": ({"content": None, "function_call": {"name": "f", "arguments": BOTH}}, [WRITE, DOWN]),
    "parts": ({"content": [{"type": "text", "text": BOTH[:20]}, {"type": "text", "text": BOTH[20:]}]}, [WRITE, DOWN]),
    "thinking in parts": (
        {"content": [{"type": "thinking", "thinking": [{"text": DRAFT}]}, {"type": "text", "text": BOTH}]},
        [WRITE, DOWN],
    ),
    "tool call of an action": (
        {"tool_calls": [{"type": "function", "function": {"name": "click", "arguments": '{"element": 2}'}}]},
        [Click(mark=2)],
    ),
    "parts of another API": ({"content": [{"type": "output_text", "text": BOTH}]}, [WRITE, DOWN]),
    "a list of another name": (json.dumps({"actions": [FIRST, SECOND]}), [WRITE, DOWN]),
    "an object around it": (json.dumps({"response": json.loads(BOTH)}), [WRITE, DOWN]),
    "tool call in the text": ('<tool_call>\n{"name": "f", "arguments": ' + BOTH + "}\n</tool_call>", [WRITE, DOWN]),
    "escaped arguments": (json.dumps({"name": "propose", "parameters": BOTH}), [WRITE, DOWN]),
    "trailing comma": (BOTH[:-1] + ",}", [WRITE, DOWN]),
    "single quotes": (str(json.loads(BOTH)), [WRITE, DOWN]),
    "names without quotes": (FINAL.replace('"type"', "type").replace('"candidates"', "candidates"), [DOWN]),
    "comments": (FINAL.replace(": [", ": [ // the best\n", 1), [DOWN]),
    "no end": (BOTH[:-2], [WRITE, DOWN]),
    "a missing comma": (BOTH.replace('"a", ', '"a" '), [WRITE, DOWN]),
    "quotes in a text": (FINAL.replace('"b"', '"the "best" one"'), [DOWN]),
    "a fence and words": (f"Sure:\n```json\n{FINAL[:-1]},}}\n```\nAnything else?", [DOWN]),
    "written twice": (json.dumps({"candidates": json.dumps([FIRST, SECOND])}), [WRITE, DOWN]),
    "bare list": (json.dumps([FIRST, SECOND]), [WRITE, DOWN]),
    "one candidate": (json.dumps(FIRST), [WRITE]),
    "one candidate for the list": (json.dumps({"candidates": FIRST}), [WRITE]),
    "one action": (json.dumps(FIRST["action"]), [WRITE]),
    "action as a string": (acting("scroll down"), [DOWN]),
    "action with a mark as a string": (acting('write [1] "lamp" enter'), [WRITE]),
    "loud words": (acting("Scroll DOWN"), [DOWN]),
    "a mark without brackets": (acting("CLICK 2"), [Click(mark=2)]),
    "a call in words": (acting("click(2)"), [Click(mark=2)]),
    "typing in words": (acting('type [1] "Red Lamp"'), [Write(mark=1, text="Red Lamp")]),
    "type as the action": (acting("scroll", direction="Down"), [DOWN]),
    "type as the name": (acting({"click": {"element": 2}}), [Click(mark=2)]),
    "other type": (acting({"type": "Go-Back"}), [GoBack()]),
    "a number as the text": (
        acting({"type": "write", "element": "1", "text": 5, "enter": "true"}),
        [Write(mark=1, text="5", enter=True)],
    ),
    "half a character": (BOTH.replace("lamp", "la\\ud800mp"), [Write(mark=1, text="la\ufffdmp", enter=True), DOWN]),
    "a whole one": (BOTH.replace("lamp", "\\ud83d\\ude00"), [Write(mark=1, text="\U0001f600", enter=True), DOWN]),
    "harmony": (
        f"<|channel|>analysis<|message|>maybe {DRAFT}<|end|><|start|>assistant<|channel|>final <|constrain|>json"
        f"<|message|>{FINAL}",
        [DOWN],
    ),
    "<|START_THINKING|>": (f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{FINAL}", [DOWN]),
    "aloud": (f"First idea: {DRAFT}\nOn reflection:\n```json\n{FINAL}\n```", [DOWN]),
    "aloud, with a slip": (f"First: {DRAFT[:-1]},}}\nBetter: {FINAL[:-1]},}}", [DOWN]),
    "in two fences": (f"```json\n{DRAFT[:-1]},}}\n```\nBetter:\n```json\n{FINAL}\n```", [DOWN]),
    "before a remark": (f'{FINAL}\nI was not sure: {{"confidence": 0.5}}', [DOWN]),
    "words and a call without arguments": ({"content": "So:", **function("")}, [GoBack()]),
    "arguments written twice": (function(json.dumps(json.dumps(json.loads(BOTH), indent=2))), [WRITE, DOWN]),
    "a call as OpenAI logs it": (json.dumps({"type": "function", **function(BOTH)["tool_calls"][0]}), [WRITE, DOWN]),
    "an action as a call": (acting(json.loads(CALL)), [Click(mark=2)]),
    "a text as the action": (acting('{"action": "click", "action_input": {"index": 2}}'), [Click(mark=2)]),
    "headings": (f"Option 1:\n{json.dumps(FIRST)}\n**2.**\n{json.dumps(SECOND)}\n{CALL}", [WRITE, DOWN, Click(mark=2)]),
    "tool calls in the text": (f"<tool_call>{CALL}</tool_call>\n<tool_call>\n{FINAL[16:-2]}", [Click(mark=2), DOWN]),
    "a name for each": (json.dumps({"reasoning": "so", "candidate_1": FIRST, "candidate_2": SECOND}), [WRITE, DOWN]),
    "other names": (acting({"action": "input_text", "elementId": 1, "value": "lamp", "press_enter": True}), [WRITE]),
    "no element": (acting({"type": "scroll", "direction": "Down ", "element": "none"}), [DOWN]),
    "keys with blanks": (acting({"type": "press", "keys": "Ctrl + a"}), [Press(keys="Control+a")]),
    "a price": (BOTH.replace("lamp", "\\$5"), [Write(mark=1, text="$5", enter=True), DOWN]),
    "a zip code": (BOTH.replace('"lamp"', "02134"), [Write(mark=1, text="02134", enter=True), DOWN]),
    "thinking alone": (f"<think>{FINAL}</think>", [DOWN]),
}
MARKS, TAGS = ("[2]", "2", "Mug [2]", "[2] Mug 12oz"), ("[{}THINK]", "<{}think>", "<{}thinking>", "◁{}think▷")
FORMS |= {mark: (acting({"type": "click", "element": mark}), [Click(mark=2)]) for mark in MARKS}
FORMS |= {tag: (f"{tag.format('')}maybe {DRAFT} no{tag.format('/')}{FINAL}", [DOWN]) for tag in TAGS}


@pytest.mark.parametrize("form", FORMS)
async def test_each_form_of_a_valid_reply_is_read_in_one_call(form: str) -> None:
    message, expected = FORMS[form]
    server = serve(completion(message))
    offered = await propose(server)
    assert ([candidate.action for candidate in offered.candidates], len(server.requests)) == (expected, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>maybe {DRAFT}, or",
        f"<|channel|>analysis<|message|>maybe {DRAFT}",
        BOTH[: BOTH.index("amp")],  # within the text to be written
        acting({"type": "click", "element": "the mug"}),
        acting("fly [2]"),
        acting("the mug"),
        acting({"type": "run_script", "url": "http://evil/"}),
        acting("run_script http://evil/"),
        acting([]),
    ],
)
async def test_what_is_no_reply_is_not_carried_out(text: str) -> None:
    offered = await propose(serve(completion(text), completion(FINAL)))
    assert [candidate.action for candidate in offered.candidates] == [DOWN]
    assert offered.usage[0].calls == 2


async def test_a_cut_reply_is_asked_again_once_with_twice_the_limit_unless_it_repeats_itself() -> None:
    begun = BOTH[: BOTH.index('"b"')]
    cut = completion(begun, "length")
    offered = await propose(server := serve(cut, completion(BOTH)))
    assert [candidate.action for candidate in offered.candidates] == [WRITE, DOWN]
    assert [request["max_tokens"] for request in server.requests] == [1500, 3000]
    assert offered.usage[0].tokens_out == 10
    too_long = 400, {"error": {"message": "maximum context length is 4096 tokens"}}
    call = completion(function(acting({"type": "click", "element": 12})[:-5]), "length")
    for wrong in (call, completion(acting({"type": "click", "element": 12})[:-5], "model_length")):
        assert (await propose(serve(wrong))).failed  # no click on 1
    for first, second, calls in ((cut, cut, 2), (cut, too_long, 2), (completion(begun + " " * 999, "length"), cut, 1)):
        offered = await propose(server := serve(first, second))
        assert ([candidate.action for candidate in offered.candidates], len(server.requests)) == ([WRITE], calls)
    thinking = completion({"content": None, "reasoning_content": f"maybe {DRAFT}, or"}, "length")
    offered = await propose(serve(thinking, completion(FINAL)))
    assert [candidate.action for candidate in offered.candidates] == [DOWN]


FILTERS = [
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    "Input data may contain inappropriate content.",
    "Content Exists Risk",
    "Your request was rejected as a result of our safety system.",
]


REFUSALS = [(words, (400, {"error": {"message": words, "code": "content_filter"}})) for words in FILTERS]
REFUSALS += [("I cannot.", completion({"content": None, "refusal": "I cannot."}))]
REFUSALS += [("I cannot.", completion("I cannot.", "content_filter"))]
REFUSALS += [("", completion({"content": None}, why)) for why in ("SAFETY", "content_filter: PROHIBITED_CONTENT")]


@pytest.mark.parametrize(("words", "answer"), REFUSALS)
async def test_a_refusal_or_a_content_filter_refuses_one_step_at_once(words: str, answer: tuple[int, Any]) -> None:
    server = serve(answer)
    offered = await propose(server)
    assert (offered.failed, len(server.requests)) == (True, 1)
    assert words in offered.candidates[0].thought


@pytest.mark.parametrize(
    ("body", "expected", "words", "calls"),
    [
        ({"error": {"message": "overloaded", "code": 502}}, ModelError, r"HTTP 502 \(overloaded\)", 2),
        ({"error": {"message": "capacity exceeded", "code": 498}}, ModelError, "capacity", 2),
        ({"error": {"message": "overloaded", "code": "503"}, "choices": []}, ModelError, "overloaded", 2),
        ({"choices": [{"error": {"message": "upstream died", "code": 500}}]}, ModelError, "upstream died", 2),
        ({"error": {"message": "Insufficient credits", "code": 402}}, ConfigError, "Insufficient credits", 1),
        ({"error": {"message": "See 'failed_generation' for more", "code": 400}}, ModelError, "failed_generation", 2),
        ({"error": {"message": "free-models-per-day", "code": 429}}, ModelError, "free-models-per-day", 2),
        ({"error": {"message": "No endpoints match your data policy", "code": 404}}, ConfigError, "data policy", 1),
        ({"error": {"message": "max_tokens exceed context limit: 99999 + 21333 > 9"}}, ContextError, "21333", 1),
        ({"error": "This model's maximum prompt length is 131072"}, ContextError, "131072", 1),
        ({"error": "the model was unloaded"}, ConfigError, "the model was unloaded", 1),
        ({"error": {"message": "maximum context length is 8"}}, ContextError, "maximum context length", 1),
        ({"choices": [], "block_reason": "unsafe"}, ModelError, r"any at .*no choice.*unsafe", 1),
    ],
)
async def test_an_error_inside_a_200_is_that_error(
    body: Any, expected: type[BestOfQError], words: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestofq.models.chat.BACKOFF_SECONDS", 0.01)
    async with serve((200, body)) as server, ChatModel.at(server.base_url, "any", attempts=2) as model:
        with pytest.raises(expected, match=words):
            await model.generate(Request(messages=user("hello")))
    assert len(server.requests) == calls


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (400, "System role not supported"),
        (400, 'messages: Unexpected role "system".'),
        (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    ],
)
async def test_a_refused_system_message_joins_the_users_turn(status: int, words: str) -> None:
    messages = (*user("hello", system="be brief"), Message(role="assistant", text="x"), Message(role="user", text="y"))
    async with (
        serve((status, {"error": {"message": words}}), completion("hi")) as server,
        ChatModel.at(server.base_url, "any", attempts=1) as model,
    ):
        for _ in range(2):
            assert (await model.generate(Request(messages=messages, seed=2**40 + 5))).replies[0].text == "hi"
    turns = [[(turn["role"], turn["content"]) for turn in request["messages"]] for request in server.requests]
    merged = [("user", "be brief\n\nhello"), ("assistant", "x"), ("user", "y")]
    assert [len(turn) for turn in turns] == [4, 3, 3]
    assert turns[1] == turns[2] == merged
    assert {request["seed"] for request in server.requests} == {5}  # servers read 32 bits


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
