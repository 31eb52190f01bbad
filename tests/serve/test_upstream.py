"""What a hostile upstream, or a client, may not do to the proxy."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from broken_server import BrokenServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bestofq.models import endpoint as bounds
from bestofq.serve import upstream
from bestofq.serve.app import _usage
from bestofq.serve.upstream import UpstreamReply, post
from bestofq.store.store import Store
from tests.serve.agents import Upstream, browser_use, by_label, click, completion, episodes, judging, proxying, serving


class Keeping(Upstream):
    """It keeps what it gets as bytes, with how they are encoded."""

    async def chat(self, request: Request) -> Response:
        self.got = request.headers.get("content-encoding"), await request.body()
        return JSONResponse(completion(click(1)))


class Setting(Upstream):
    """It gives everybody a cookie."""

    async def chat(self, request: Request) -> Response:
        response = await super().chat(request)
        response.set_cookie("sid", "1")
        return response


@pytest.mark.parametrize("fault", ["flood", "elsewhere"])
async def test_no_flood_and_no_other_host(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BODY_LIMIT", 2**20)
    async with BrokenServer(lambda _: "no") as other, httpx.AsyncClient(timeout=10) as client:
        async with BrokenServer(lambda _: "hi", script=[fault, "ok"], other=other.base_url) as server:
            url = f"{server.base_url}/chat/completions"
            failed = await post(client, url, b"{}", [(b"accept-encoding", b"gzip")])
            assert (failed.status, failed.json) == (502, None)
            assert (await post(client, url, b"{}", [])).status == 200
        assert not other.requests


async def test_a_request_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "BODY_LIMIT", 2**10)
    async with serving(Upstream(lambda body, count: click(1)), tmp_path) as client:
        for path in ("chat/completions", "anything/else"):
            assert (await client.post(f"/v1/{path}", content=b" " * 2**11)).status_code == 413


async def test_a_request_in_another_encoding_passes_and_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    upstream = Keeping(lambda body, count: 0)
    async with serving(upstream, tmp_path) as client:
        for encoding in ("zstd", "zstd", "br", "gzip"):
            got = await client.post("/v1/chat/completions", content=b"\x28\xb5", headers={"content-encoding": encoding})
            assert got.status_code == 200
            assert upstream.got == (encoding, b"\x28\xb5")
        await client.post("/v1/chat/completions", content=b"no JSON")
    told = [one.message for one in caplog.records if one.name == "bestofq.serve.app"]
    assert [one.split()[3] for one in told] == ["'zstd'", "'br'", "'gzip'"]


def test_forged_counts_of_tokens_are_none() -> None:
    forged = [{"prompt_tokens": -(10**6), "completion_tokens": 10**30}, {"input_tokens": "many", "output_tokens": 7}, 7]
    used = _usage([UpstreamReply(200, [], b"", {"usage": one}) for one in forged])
    assert (used.tokens_in, used.tokens_out, used.calls) == (0, 7, 3)


async def test_the_query_and_every_header_are_sent_on_as_they_came(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(1))
    headers = [(b"X-Title", "Mön 日本".encode()), (b"anthropic-beta", b"one"), (b"anthropic-beta", b"two")]
    talk = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with serving(upstream, tmp_path) as client:
        for body in (browser_use("shoes", 1), talk):  # a decision, and none
            url = "/v1/chat/completions?api-version=preview&a=%2F&a="
            assert (await client.post(url, json=body, headers=headers)).status_code == 200
    assert upstream.queries == ["api-version=preview&a=%2F&a="] * 2
    for sent in upstream.headers:
        assert sent["x-title"].encode("latin-1").decode() == "Mön 日本"
        assert sent.getlist("anthropic-beta") == ["one", "two"]


async def test_no_client_gets_the_cookies_of_another_or_headers_that_it_did_not_send(tmp_path: Path) -> None:
    upstream = Setting(lambda body, count: click(1))
    talk = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with serving(upstream, tmp_path) as client:
        for body in (browser_use("shoes", 1), talk, browser_use("hats", 1), talk):  # decisions, and none
            got = await client.send(httpx.Request("POST", client.base_url.join("/v1/chat/completions"), json=body))
            assert got.cookies["sid"] == "1"
    for sent in upstream.headers:
        assert sorted(sent) == ["accept-encoding", "content-length", "content-type", "host"]
        assert sent["accept-encoding"] == "identity"


@pytest.mark.parametrize("said", [b'{"error": {"message": "no provider"}}', b"no provider", b'{"choices": []}'])
async def test_a_200_that_is_no_reply_is_an_error_to_clients_that_stream(tmp_path: Path, said: bytes) -> None:
    upstream = Upstream(lambda body, count: said if len(upstream.asked) < 3 else click(1))
    asks = {**browser_use("shoes", 1), "stream": True}
    async with serving(upstream, tmp_path, repair=False) as client:
        got = await client.ask(asks)
        assert got.status_code == 502
        assert said.decode() in got.json()["error"]["message"]
        async with client.openai("x") as agent:  # it asks again by itself
            chunks = [chunk async for chunk in await agent.chat.completions.create(**asks)]
    assert chunks[0].choices[0].delta.content == click(1)
    assert [len(episode.steps) for episode in episodes(tmp_path)] == [1]


async def test_a_client_that_streams_gets_every_choice(tmp_path: Path) -> None:
    choices = [{"index": n, "message": {"role": "assistant", "content": click(n + 1)}} for n in range(2)]
    upstream = Upstream(lambda body, count: json.dumps({"id": "r", "choices": choices}).encode())
    async with serving(upstream, tmp_path) as agent, agent.openai() as client:
        chunks = [one async for one in await client.chat.completions.create(**browser_use("a", 1), n=2, stream=True)]
    assert {one.choices[0].index for one in chunks} == {0, 1}


async def test_an_answer_that_the_upstream_cuts_ends_unfinished(tmp_path: Path) -> None:
    async with BrokenServer(lambda _: "no", script=["half"]) as server:
        with Store.open(tmp_path) as store:
            async with proxying(server.base_url, store) as client:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.ask({"messages": []})


@pytest.mark.parametrize("message", [b'{"tool_calls": [{}]}', b'{"tool_calls": "no"}', b'"no"', b"7"])
async def test_a_reply_of_another_form_is_passed_on(tmp_path: Path, message: bytes) -> None:
    said = b'{"choices": [{"message": %s}]}' % message
    schema = {"type": "json_schema", "name": "judge", "schema": {"properties": {"verdict": {}}}}
    asks = [("chat/completions", browser_use("shoes", 1)), ("chat/completions", judging("shoes"))]
    asks.append(("responses", {"model": "m", "input": "shoes", "text": {"format": schema}}))
    async with serving(Upstream(lambda body, count: said), tmp_path) as client:
        for path, body in asks:
            got = await client.post(f"/v1/{path}", json=body)
            assert (got.status_code, got.content) == (200, said)


@pytest.mark.parametrize("said", [b'{"error": {"message": "no provider"}}', b'{"choices": []}', "I would click"])
async def test_a_200_that_is_no_decision_is_not_remembered(tmp_path: Path, said: bytes | str) -> None:
    upstream = Upstream(lambda body, count: said if count == 1 else click(count))
    async with serving(upstream, tmp_path, repair=False) as client:
        bad, good, same = [(await client.ask(browser_use("shoes", 1), "x")).content for _ in range(3)]
    assert bad == said or b"I would click" in bad
    assert good == same != bad
    assert [len(episode.steps) for episode in episodes(tmp_path)] == [1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"host": "LOCALHOST:8770", "origin": "http://127.0.0.1:3000"}, 200),
        ({"host": "host.docker.internal:8770"}, 200),
        ({"origin": "chrome-extension://abc"}, 200),
        ({"origin": "vscode-webview://abc"}, 200),
    ],
)
async def test_no_page_elsewhere_may_write(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    plain = {"content-type": "text/plain", **headers}  # which browsers send without asking
    async with serving(Upstream(lambda body, count: click(1)), tmp_path) as client:
        asks = json.dumps(browser_use("shoes", 1))
        for path, content in (("v1/chat/completions", asks), ("outcome", '{"success": true}')):
            got = await client.post(f"/sessions/x/{path}", content=content, headers=plain)
            assert got.status_code == status
    assert len(episodes(tmp_path)) == (status == 200)


@pytest.mark.parametrize("path", ["v1/../../x", "v1/%2e%2e/x", "v1/a%2f..%2f..%2fx", "sessions/s/v1/..%5cx"])
async def test_no_path_leaves_the_upstream_s(tmp_path: Path, path: str) -> None:
    class Open(Upstream):
        app = Starlette(routes=[Route("/{path:path}", lambda _: Response("secret"))])

    async with serving(Open(lambda body, count: click(1)), tmp_path) as client:
        got = await talk(client, f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert got.startswith("HTTP/1.1 404")


async def talk(client: httpx.AsyncClient, said: str) -> str:
    """What the proxy answers until it closes the connection."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(said.encode())
    got = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return got.decode()


async def test_no_second_request_hides_behind_two_lengths(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: click(1))
    hidden = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {5 + len(hidden)}\r\nTransfer-Encoding: chunked"
    async with serving(upstream, tmp_path) as client:
        got = await talk(client, f"{head}\r\n\r\n0\r\n\r\n{hidden}")
    assert got.count("HTTP/1.1") == 1
    assert got.startswith("HTTP/1.1 400")


@pytest.mark.parametrize("config", [{}, {"mode": "rank"}, {"mode": "rank", "stream": True}])
async def test_the_upstream_s_headers_come_once(tmp_path: Path, config: dict[str, Any]) -> None:
    class Limiting(Upstream):
        async def chat(self, request: Request) -> Response:
            response = await super().chat(request)
            response.headers.update({"x-request-id": "r7", "date": "now", "server": "theirs"})
            return response

    asks, score = browser_use("shoes", 1) | ({"stream": True} if config.pop("stream", 0) else {}), by_label("red")
    upstream = Limiting(lambda body, count: click(1 + count % 2))
    async with serving(upstream, tmp_path, score, **config) as client:
        got = await client.ask(asks)
    names = [name for name, _ in got.headers.multi_items()]
    assert (got.headers["x-request-id"], got.headers["server"]) == ("r7", "uvicorn")
    assert len(names) == len(set(names))


LIES: list[Any] = [
    *({"success": said} for said in ("false", "no", [0], 1, None)), {}, [], "yes", {"success": True, "reward": "1"},
    {"success": True, "reward": 0}, {"success": False, "reward": 1}, {"success": True, "reward": 2},
]  # fmt: skip


async def test_only_a_clear_outcome_ends_a_session(tmp_path: Path) -> None:
    async with serving(Upstream(lambda body, count: click(1)), tmp_path) as client:
        await client.ask(browser_use("shoes", 1), "x")
        codes = {(await client.end("x", lie)).status_code for lie in LIES}
        long = await client.post("/sessions/x/outcome", content=b" " * (1 << 21))
        right = await client.end("x", {"success": False, "reward": 0.4})
    assert (codes, long.status_code, right.status_code) == ({422}, 413, 200)
    assert [episode.verdict.reward for episode in episodes(tmp_path)] == [0.4]


async def test_a_new_goal_under_a_session_s_name_is_a_new_episode(tmp_path: Path) -> None:
    async with serving(Upstream(lambda body, count: click(1)), tmp_path) as client:
        for goal, step in (("shoes", 1), ("shoes", 2), ("a hat", 1)):
            await client.ask(browser_use(goal, step), "x")
    assert {one.task.goal: len(one.steps) for one in episodes(tmp_path)} == {"shoes": 2, "a hat": 1}
