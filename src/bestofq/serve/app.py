"""An OpenAI-compatible endpoint before another: agents change their base URL, and a Q-function chooses their actions.

One request of an agent is one decision. `record` passes it on and keeps what was seen and done; `shadow` draws more
candidates and keeps what Q would have chosen; `rank` answers with it. Whatever is no decision passes through as it is.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

import httpx
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bestofq.core.decision import Candidate, Decision, Scores, State, Verdict, distinct
from bestofq.core.errors import DataError
from bestofq.core.noun import Noun
from bestofq.core.protocols import Scorer
from bestofq.core.usage import Usage
from bestofq.serve.sessions import Sessions
from bestofq.serve.wire import END, Asked, Json, as_event, as_events, asked, candidate, is_final, judged, total

Mode = Literal["record", "shadow", "rank"]
SESSION, RETRIED = "x-session-id", "x-stainless-retry-count"
KEPT_ALIVE = 10.0  # seconds between comments to a client that waits
REMEMBERED = 1_000  # replies, for clients that ask again
_HOP = {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
_ENCODED = _HOP | {"content-encoding"}  # of a response: httpx has decoded it


class ServeConfig(Noun):
    """What is asked of the upstream, and how long."""

    mode: Mode = "record"
    n: int = Field(default=3, ge=1, description="candidates a step (Best-of-Q, 4.1), the request as it came among them")
    temperature: float = Field(default=1.0, ge=0, description="of the others, where the request's own is lower")
    deadline: float = Field(default=45.0, gt=0, description="seconds after which what has come is ranked")
    patience: float = Field(default=600.0, gt=0, description="seconds that the upstream may be silent")


class Reply(NamedTuple):
    """What the upstream said: JSON where it is a completion."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    json: Json | None

    def response(self) -> Response:
        return Response(self.content, self.status, _passed(self.headers, _ENCODED))


Post = Callable[[float | None], Awaitable[Reply]]
"""Asks the upstream at a temperature; None: as the request came."""


LATE = Reply(504, {}, b'{"error": {"message": "the upstream was too slow"}}', None)


def proxy_app(config: ServeConfig, upstream: str, sessions: Sessions, scorer: Scorer | None = None) -> Starlette:
    """The application; `scorer` ranks, and is needed by the modes `shadow` and `rank`."""
    proxy = Proxy(config, upstream.rstrip("/"), sessions, scorer)
    chat = "/v1/chat/completions"
    return Starlette(
        routes=[
            Route(chat, proxy.chat, methods=["POST"]),
            Route("/sessions/{session}" + chat, proxy.chat, methods=["POST"]),
            Route("/sessions/{session}/outcome", proxy.outcome, methods=["POST"]),
            Route("/sessions/{session}/v1/{rest:path}", proxy.passed, methods=["GET", "POST", "DELETE"]),
            Route("/v1/{rest:path}", proxy.passed, methods=["GET", "POST", "DELETE"]),
        ],
        lifespan=lambda _: proxy.running(),
    )


class Proxy:
    """`upstream` is an endpoint's address with its /v1."""

    def __init__(self, config: ServeConfig, upstream: str, sessions: Sessions, scorer: Scorer | None) -> None:
        self.config, self.upstream, self.sessions, self.scorer = config, upstream, sessions, scorer
        self._client = httpx.AsyncClient(timeout=config.patience)
        self._replies: dict[str, asyncio.Future[Response]] = {}  # by session and request, the last ones

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.gather(*self._replies.values(), return_exceptions=True)
            await self.sessions.close()
            await self._client.aclose()

    async def passed(self, request: Request) -> Response:
        """The upstream's answer, byte for byte as it comes."""
        url = f"{self.upstream}/{request.path_params['rest']}"
        return await self._stream(request, url, await request.body())

    async def _stream(self, request: Request, url: str, body: bytes) -> Response:
        sent = self._client.build_request(
            request.method, url, content=body, params=request.query_params, headers=_passed(request.headers, _HOP)
        )
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx.TransportError as error:
            return _unreachable(error)
        headers = _passed(answer.headers, _HOP)
        return StreamingResponse(_closing(answer), answer.status_code, headers)

    async def chat(self, request: Request) -> Response:
        """A chat completion."""
        raw = await request.body()
        url, headers = f"{self.upstream}/chat/completions", _passed(request.headers, _HOP)
        try:
            body = json.loads(raw)
            wanted = asked(body)
        except (ValueError, LookupError, AttributeError, TypeError):
            wanted = None
        if wanted is None:
            return await self._stream(request, url, raw)
        if wanted.kind == "judge":
            reply = await self._post(url, raw, headers)
            if verdict := judged(reply.json):
                await self.sessions.judged(wanted, verdict)
            return reply.response()
        given = request.path_params.get("session") or request.headers.get(SESSION)
        key = f"{given} {hashlib.sha256(raw).hexdigest()}"
        lost = given is not None or request.headers.get(RETRIED, "0") != "0"  # else another agent may ask the same
        replying = self._replies.get(key) if lost else None
        if replying is None or (replying.done() and (replying.exception() or replying.result().status_code != 200)):
            post = self._posting(url, body, raw, headers)
            replying = self._replies[key] = asyncio.ensure_future(self._reply(wanted, given, post, body))
            while len(self._replies) > REMEMBERED:
                self._replies.pop(next(iter(self._replies)))
        if body.get("stream"):
            return StreamingResponse(_streamed(replying), media_type="text/event-stream")
        return await asyncio.shield(replying)  # who asks again gets it, too

    def _posting(self, url: str, body: Json, raw: bytes, headers: Mapping[str, str]) -> Post:
        """Asks once: at a temperature, or as the request came, but that a stream is asked for whole."""

        async def post(temperature: float | None) -> Reply:
            if temperature is None and not body.get("stream"):
                return await self._post(url, raw, headers)
            asks = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
            warm = {} if temperature is None else {"temperature": temperature}
            return await self._post(url, json.dumps(asks | warm).encode(), headers)

        return post

    async def _post(self, url: str, content: bytes, headers: Mapping[str, str]) -> Reply:
        try:
            answer = await self._client.post(url, content=content, headers=headers)
        except httpx.TransportError as error:
            response = _unreachable(error)
            return Reply(response.status_code, dict(response.headers), bytes(response.body), None)
        try:
            said = answer.json() if answer.status_code == 200 else None
        except ValueError:
            said = None
        return Reply(answer.status_code, answer.headers, answer.content, said if isinstance(said, dict) else None)

    async def _reply(self, wanted: Asked, given: str | None, post: Post, body: Json) -> Response:
        """What the agent is to do: one of the upstream's replies. Steps of one session follow one another."""
        session = self.sessions.of(wanted, given)
        async with session.busy:
            ranks = self.config.mode == "rank" and session.agent == self.sessions.arms[-1]
            replies = await self._draw(post, body, self.config.n if ranks or self.config.mode == "shadow" else 1)
            found = [(one, reply) for reply in replies if reply.json and (one := candidate(wanted, reply.json))]
            first = replies[0]
            greedy = next((one for one, reply in found if reply is first), None)
            if not found or (greedy is None and not ranks):  # the agent deals with it as it always has
                return first.response()
            candidates, state = distinct(one for one, _ in found), session.state(wanted)
            scores, best = await self._rank(state, candidates, greedy)
            if ranks and best is None:
                return first.response()
            chosen = best if ranks and best is not None else 0
            decision = Decision(
                candidates=candidates,
                scores=scores.values,
                state_value=scores.state_value,
                checkpoint=scores.checkpoint,
                scorer=type(self.scorer).__name__ if self.scorer else None,
                chosen=chosen,
                usage=(_usage(replies), *scores.usage),
            )
            taken = next(reply for one, reply in found if one.action == candidates[chosen].action)
            assert taken.json is not None
            await self.sessions.step(session, state, decision, taken.json)
            if taken is first and not ranks:
                return first.response()
            return JSONResponse({**taken.json, "usage": total([one.json for one in replies if one.json])})

    async def _draw(self, post: Post, body: Json, n: int) -> list[Reply]:
        """The reply to the request as it came, then what has come of n - 1 others by the deadline."""
        warmer = max(self.config.temperature, body.get("temperature") or 0.0)
        asking = [asyncio.ensure_future(post(warmer if number else None)) for number in range(n)]
        await asyncio.wait(asking, timeout=self.config.deadline)
        if not any(one.done() for one in asking):
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        come = [one.result() for one in asking if one.done()]
        for one in asking:
            one.cancel()
        return come if asking[0].done() and not asking[0].cancelled() else [LATE, *come]

    async def _rank(
        self, state: State, candidates: Sequence[Candidate], greedy: Candidate | None
    ) -> tuple[Scores, int | None]:
        """The best candidate, None where there is none; one that seems irreversible only where the greedy one does."""
        if self.scorer is None or self.config.mode == "record":
            return Scores(values=(0.0,) * len(candidates)), 0
        scores = await self.scorer.score(state, candidates)
        bold = greedy is not None and is_final(greedy)
        able = [i for i, one in enumerate(candidates) if bold or not is_final(one)]
        return scores, max(able, key=scores.values.__getitem__, default=None)

    async def outcome(self, request: Request) -> Response:
        """`{"success": true}`, or `{"reward": 0.4}` too; `reason` and `judge` (who says so) where known."""
        try:
            said = await request.json()
            success = bool(said["success"])
            verdict = Verdict(
                reward=float(said.get("reward", success)),
                outcome="success" if success else "failure",
                reason=str(said.get("reason", "")),
                judge=str(said.get("judge", "client")),
            )
            await self.sessions.outcome(request.path_params["session"], verdict)
        except DataError as error:
            return JSONResponse({"error": {"message": str(error)}}, 404)
        except (ValueError, KeyError, TypeError, AttributeError):
            what = 'an outcome is {"success": true or false}, with reward from 0 to 1, reason and judge where known'
            return JSONResponse({"error": {"message": what}}, 422)
        return JSONResponse({"session": request.path_params["session"], "outcome": verdict.outcome})


def _usage(replies: Sequence[Reply]) -> Usage:
    spent = total([one.json for one in replies if one.json])
    return Usage(
        role="proposer",
        tokens_in=spent.get("prompt_tokens", 0),
        tokens_out=spent.get("completion_tokens", 0),
        calls=len(replies),
    )


async def _streamed(replying: asyncio.Future[Response]) -> AsyncIterator[bytes]:
    """The reply as events, and a comment now and then until it is there."""
    while not replying.done():
        await asyncio.wait([replying], timeout=KEPT_ALIVE)
        if not replying.done():
            yield b": waiting\n\n"
    reply, body = replying.result(), bytes(replying.result().body)
    failed = as_event({"error": {"code": reply.status_code, "message": body.decode(errors="replace")}})
    for event in as_events(json.loads(body)) if reply.status_code == 200 else (failed, END):
        yield event


def _unreachable(error: httpx.TransportError) -> JSONResponse:
    """Clients try a 502 again, as they would a lost connection."""
    return JSONResponse({"error": {"message": f"the upstream gave no answer ({type(error).__name__})"}}, 502)


def _passed(headers: Mapping[str, str], left_out: set[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in left_out}


async def _closing(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()
