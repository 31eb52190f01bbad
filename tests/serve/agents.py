"""What tests of `serve` share: an upstream by a function, the proxy before it, and what browser-use sends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bestofq.core.decision import Candidate, Episode, Provenance, State
from bestofq.reports.rollout import Rollout
from bestofq.serve.app import ServeConfig, proxy_app
from bestofq.serve.sessions import Sessions
from bestofq.store.store import Store
from bestofq.testing import ScriptedScorer, serve_app

Body = Mapping[str, Any]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "agent_output", "schema": {"properties": {"action": {}}}}}
JUDGE = {"type": "json_schema", "json_schema": {"name": "agent_output", "schema": {"properties": {"verdict": {}}}}}
TOOLS = [{"type": "function", "function": {"name": "click", "parameters": {"type": "object"}}}]
PAGE = "Shoes\n[1]<a />\n\tred shoes\n\t[2]<button type=submit />\n\t\tBuy now\n\t\ttoday\n[3]<a />\n\tblue shoes\nend"


class Upstream:
    """An endpoint that replies by a function of the request and of how often it was asked."""

    def __init__(self, reply: Callable[[Body, int], Any]) -> None:
        self.reply, self.asked, self.headers, self.queries = reply, list[Body](), list[Headers](), list[str]()

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(request.headers)
        self.queries.append(request.url.query)
        said = self.reply(body, len(self.asked))
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, int):
            return JSONResponse({"error": {"message": "busy"}}, said)
        if isinstance(said, bytes):
            return Response(said, media_type="application/json")
        if isinstance(said, dict) and "type" in said:  # a whole reply of another protocol
            return JSONResponse(said)
        message = said if isinstance(said, dict) else {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        text = json.dumps({"id": f"r{len(self.asked)}", "object": "chat.completion", "created": 1, "model": "m",
                           "choices": [choice], "usage": usage}, indent=3)  # fmt: skip
        return Response(text, media_type="application/json")

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})

    @property
    def app(self) -> Starlette:
        chat = Route("/v1/chat/completions", self.chat, methods=["POST"])
        others = [Route(f"/v1/{path}", self.chat, methods=["POST"]) for path in ("responses", "messages")]
        return Starlette(routes=[chat, *others, Route("/v1/models", self.models)])


Score = Callable[[State, Sequence[Candidate]], Sequence[float]]


class ProxyClient(httpx.AsyncClient):
    """A client of the proxy. Its paths begin at the root that agents are given, without /v1."""

    async def ask(self, body: object, session: str = "", **more: Any) -> httpx.Response:
        """Ask for a chat completion, in the session of that name if there is one."""
        where = f"/sessions/{session}" if session else ""
        return await self.post(f"{where}/v1/chat/completions", json=body, **more)

    async def ask_message(self, body: object, session: str = "", **more: Any) -> Any:
        """Ask, and return the message of the reply."""
        return (await self.ask(body, session, **more)).json()["choices"][0]["message"]

    async def ask_click(self, body: object, session: str = "", **more: Any) -> int:
        """Ask, and return the index of the element that the reply clicks."""
        said = json.loads((await self.ask_message(body, session, **more))["content"])
        return int(said["action"][0]["click"]["index"])

    async def end(self, session: str, outcome: object) -> httpx.Response:
        return await self.post(f"/sessions/{session}/outcome", json=outcome)

    def openai(self, session: str = "") -> AsyncOpenAI:
        """OpenAI's own client of the same proxy."""
        where = f"/sessions/{session}/v1" if session else "/v1"
        return AsyncOpenAI(base_url=str(self.base_url.join(where)), api_key="k", max_retries=4)


@asynccontextmanager
async def proxying(
    url: str, store: Store, score: Score | None = None, arms: tuple[str, ...] = (), state: Rollout | None = None,
    **config: Any,
) -> AsyncIterator[ProxyClient]:  # fmt: skip
    """A client of the proxy before the endpoint at `url`. Without `arms` all its sessions are ranked, or none."""
    arms = arms or (("best-of-q",) if config.get("mode") == "rank" else ("prompting",))
    await store.begin_run("serve", {}, Provenance(version="test"))
    sessions = Sessions(store, "serve", Provenance(version="test"), arms, state)
    app = proxy_app(ServeConfig(**config), url, sessions, ScriptedScorer(score) if score else None)
    async with serve_app(app) as root, app.router.lifespan_context(app), ProxyClient(base_url=root) as client:
        yield client


@asynccontextmanager
async def serving(upstream: Upstream, folder: Path, *score: Any, **config: Any) -> AsyncIterator[ProxyClient]:
    """The same before an upstream of the test; `score`: the scorer's function, the arms, the state of the rollout."""
    with Store.open(folder) as store:
        async with serve_app(upstream.app) as url, proxying(f"{url}/v1", store, *score, **config) as client:
            yield client


def episodes(folder: Path) -> list[Episode]:
    with Store.open(folder, read_only=True) as store:
        return list(store.episodes(run="serve"))


def browser_use(goal: str, step: int, memory: str = "") -> dict[str, Any]:
    """A request as browser-use rebuilds it each step: no ids, its own memory quoted."""
    now = f"<user_request>{goal}</user_request><step_info>Step{step} maximum:9</step_info>"
    text = f"<agent_history>{memory}</agent_history>{now}<browser_state>{PAGE}</browser_state>"
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": parts}]
    return {"model": "m", "messages": messages, "response_format": SCHEMA, "temperature": 0.2}


def judging(goal: str) -> dict[str, Any]:
    """What browser-use asks its judge."""
    messages = [{"role": "user", "content": f"<task>{goal}</task> Was it done?"}]
    return {"model": "m", "messages": messages, "response_format": JUDGE}


def click(index: int, memory: str = "", goal: str = "") -> str:
    return json.dumps({"memory": memory, "next_goal": goal, "action": [{"click": {"index": index}}]})


def called(id_: str, arguments: str = "{}", name: str = "click") -> dict[str, Any]:
    """A message with a call of a tool."""
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def completion(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


def by_label(wanted: str) -> Callable[[State, Sequence[Candidate]], list[float]]:
    return lambda state, candidates: [float(wanted in one.label) for one in candidates]
