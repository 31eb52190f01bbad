"""A proxy for an endpoint: agents change their base URL, and a Q-function chooses their actions.

One request of an agent is one decision. `record` forwards it and keeps what was seen and done. `shadow` draws more
candidates and records Q's choice. `rank` answers with it. If no reply can be read, the proxy asks the upstream once
more. Every other request is forwarded unchanged.
"""

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

import httpx
from pydantic import Field
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bestofq.core.decision import Candidate, Decision, Scores, State, Verdict, distinct
from bestofq.core.errors import DataError, SetupError
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation
from bestofq.core.protocols import Scorer
from bestofq.core.secrets import keep_token
from bestofq.core.usage import Usage, token_count
from bestofq.interop.nouns import json_in, text_of, verdict_by
from bestofq.models.endpoint import client_errors
from bestofq.serve import upstream
from bestofq.serve import wire as chat
from bestofq.serve.anthropic import MESSAGES
from bestofq.serve.guard import UpstreamGuard
from bestofq.serve.responses import RESPONSES
from bestofq.serve.sessions import AgentSession, Sessions, kept

log = logging.getLogger(__name__)
Mode = Literal["record", "shadow", "rank"]
SESSION, RETRIED = "x-session-id", "x-stainless-retry-count"
KEPT_ALIVE = 10.0  # seconds between comments to a client that waits
REMEMBERED, REMEMBERED_BYTES = 1_000, 64 << 20  # replies, for clients that ask again
QUOTED = 1_000  # bytes of a reply that cannot be read
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""What reading JSON of an unexpected form raises."""
OUTCOME_LIMIT = 1 << 20  # bytes
LEAVING = 5  # seconds that a stop waits for replies under way, and for their clients


class ServeConfig(FrozenModel):
    """The mode of the proxy, and its requests to the upstream."""

    mode: Mode = "record"
    n: int = Field(default=3, ge=1, description="candidates a step (Best-of-Q, 4.1), the request as it came among them")
    temperature: float = Field(default=1.0, ge=0, description="of the others, where the request's own is lower")
    deadline: float = Field(default=45.0, gt=0, description="seconds after which what has come is ranked")
    plain: bool = Field(default=False, description="requests without tools or schema are decisions, too")
    repair: bool = Field(default=True, description="ask once more where no reply can be read, with what is wrong")
    patience: float = Field(default=600.0, gt=0, description="seconds that the upstream may be silent")
    explore: float = Field(default=0.0, ge=0, lt=1, description="of the steps recorded, the share with another reply")
    explore_steps: int = Field(default=3, ge=1, description="of a session that may have another reply")


class Asking(NamedTuple):
    """A request for a decision, and where to ask for its replies."""

    wire: chat.ApiAdapter
    asked: chat.DecisionRequest
    body: chat.Json
    raw: bytes
    url: str
    headers: upstream.Headers
    key: str  # of its session's name, its address and its content
    client: str  # `client_of`


class ReportedOutcome(FrozenModel):
    """How a client says that a session ended."""

    success: bool
    reward: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    reason: str = ""
    judge: str = "client"

    def verdict(self) -> Verdict:
        """ValueError if reward and success contradict each other."""
        reward = float(self.success) if self.reward is None else self.reward
        if reward == (not self.success):
            raise ValueError
        return verdict_by(self.judge, success=self.success, reason=self.reason, reward=reward)


class StoredAnswer(NamedTuple):
    """The agent's answer. A repeated request gets the same decision; anything else is requested again."""

    response: Response
    decision: bool


def client_of(request: Request) -> str:
    """Who asks: the hash of the key that it sends, or nothing."""
    key = request.headers.get("authorization") or request.headers.get("x-api-key") or ""
    return key and hashlib.sha256(key.encode()).hexdigest()


def proxy_app(config: ServeConfig, upstream: str, sessions: Sessions, scorer: Scorer | None = None) -> Starlette:
    """The application; `scorer` ranks, and is needed by the modes `shadow` and `rank`."""
    proxy = Proxy(config, upstream.rstrip("/"), sessions, scorer)
    routes = []
    for before in ("/sessions/{session}", ""):
        for wire in (chat.CHAT, RESPONSES, MESSAGES):
            routes.append(Route(f"{before}/v1/{wire.path}", partial(proxy.decide, wire), methods=["POST"]))
        routes.append(Route(f"{before}/outcome", partial(outcome, sessions), methods=["POST"]))
        routes.append(Route(f"{before}/v1/{{rest:path}}", proxy.forward_request, methods=["GET", "POST", "DELETE"]))
    return Starlette(routes=routes, middleware=[Middleware(UpstreamGuard)], lifespan=lambda _: proxy.lifespan())


async def outcome(sessions: Sessions, request: Request) -> Response:
    """Store the end of a session: a `ReportedOutcome`.

    Without a name it is the session that the client stepped in last. A client is known by its key."""
    try:
        name = request.path_params.get("session") or sessions.last(client_of(request))
        if (raw := await upstream.body_of(request, OUTCOME_LIMIT)) is None:
            return upstream.failure(413, f"an outcome is longer than {OUTCOME_LIMIT >> 20} MiB").response()
        verdict = ReportedOutcome.model_validate(json_in(raw), strict=True).verdict()
        await sessions.outcome(name, verdict)
    except DataError as error:
        return upstream.failure(404, str(error)).response()
    except SetupError as error:  # the store cannot be written
        return upstream.failure(503, str(error)).response()
    except ValueError:
        what = 'an outcome is {"success": true or false}, with a reward from 0 to 1 that agrees, reason and judge'
        return upstream.failure(422, what).response()
    return JSONResponse({"session": name, "outcome": verdict.outcome})


class Proxy:
    """`upstream` is an endpoint's address with its /v1."""

    def __init__(self, config: ServeConfig, upstream: str, sessions: Sessions, scorer: Scorer | None) -> None:
        self.config, self.upstream, self.sessions, self.scorer = config, upstream, sessions, scorer
        with client_errors():
            self._client = httpx.AsyncClient(timeout=config.patience, limits=httpx.Limits())  # any number at once
        self._told: set[str] = set()
        self._unread = {"identity"}  # encodings that need no warning (any more)
        self._replies: dict[str, tuple[AgentSession, asyncio.Future[StoredAnswer]]] = {}  # by session and request
        self._sizes: dict[str, int] = {}  # bytes of those that are there

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if under_way := [one for _, one in self._replies.values() if not one.done()]:
                _, late = await asyncio.wait(under_way, timeout=LEAVING)
                for one in late:
                    one.cancel()
                await asyncio.wait(under_way, timeout=LEAVING)
            await self.sessions.close()
            await self._client.aclose()

    def _tell(self, what: str) -> None:
        """Warn, of each thing once."""
        if what not in self._told:
            self._told.add(what)
            log.warning("%s", what)

    async def forward_request(self, request: Request) -> Response:
        """The upstream's answer, byte for byte as it comes."""
        rest = request.path_params["rest"]
        if {".", ".."} & {*unquote(rest).replace("\\", "/").split("/")}:
            return upstream.failure(404, "a path may not leave the upstream's").response()
        url = self._url(request, quote(rest))
        body = await upstream.body_of(request)
        return await self._stream(request, url, body) if body is not None else upstream.TOO_LONG.response()

    async def _stream(self, request: Request, url: str, body: bytes) -> Response:
        sent = upstream.request_to(
            self._client, request.method, url, body, upstream.filter_headers(request.headers.raw, upstream.HOP)
        )
        return await upstream.stream_answer(self._client, sent)

    def _url(self, request: Request, path: str) -> str:
        """There, with the request's query."""
        query: bytes = request.scope["query_string"]
        return f"{self.upstream}/{path}" + (f"?{query.decode('latin-1')}" if query else "")

    async def decide(self, wire: chat.ApiAdapter, request: Request) -> Response:
        """What may be an agent's decision; what is none passes."""
        keep_token(f"{request.headers.get('authorization', '').rpartition(' ')[2]} {request.headers.get('x-api-key')}")
        raw = await upstream.body_of(request)
        if raw is None:
            return upstream.TOO_LONG.response()
        url, headers = self._url(request, wire.path), upstream.filter_headers(request.headers.raw, upstream.HOP)
        try:
            body = json_in(raw)
            wanted = chat.parse_request(wire.as_chat(body), self.config.plain)
        except UNREADABLE:
            wanted = None
            encoding = request.headers.get("content-encoding", "identity").lower()
            if encoding not in self._unread:
                self._unread.add(encoding)
                log.warning("requests with content-encoding %r pass through, not recorded", encoding[:40])
        else:
            if wanted is None and not self._told and not self._replies:  # browser-use also asks for other things, later
                self._tell("a request with neither `tools` nor a JSON schema that has `action` is no decision of an "
                           "agent: such requests pass through, not recorded")  # fmt: skip
        if wanted is None:
            return await self._stream(request, url, raw)
        given = request.path_params.get("session") or request.headers.get(SESSION)
        if wanted.kind == "judge":
            reply = await upstream.post(self._client, url, raw, headers)
            if verdict := chat.parse_verdict(wire, reply.json):
                await kept(self.sessions.apply_verdict(wanted, given, verdict), "the verdict of an agent's judge")
            return reply.response()
        await self.sessions.begin_anew(wanted, given)
        key = f"{given} {url} {hashlib.sha256(raw).hexdigest()}"
        retried = request.headers.get(RETRIED, "0") != "0"
        asking = Asking(wire, wanted, body, raw, url, headers, key, client_of(request))
        replying = self._recall_reply(asking, given, retried=retried)
        if body.get("stream"):
            await asyncio.wait([replying], timeout=KEPT_ALIVE)  # an error is one to clients that stream, too
            if not replying.done():
                return StreamingResponse(_stream_reply(wire, replying), media_type="text/event-stream")
        await asyncio.wait([replying])  # not cancelled with its client: who asks again gets it, too
        return upstream.LATE.response() if replying.cancelled() else replying.result().response

    def _recall_reply(self, asking: Asking, given: str | None, *, retried: bool) -> asyncio.Future[StoredAnswer]:
        """The decision that this request has had; where it had none, a new reply. A client that asks again has
        given up its first request: what comes first of the two is the reply to both."""
        before = self._before(asking.key, given, retried=retried)
        if before and before.done() and not before.cancelled() and not before.exception():
            if before.result().decision:
                return before
            before = None
        session = self._replies[asking.key][0] if before else self.sessions.of(asking.asked, given)
        replying = asyncio.ensure_future(self._reply(session, asking))
        if before and not before.done():
            replying = asyncio.ensure_future(_either(before, replying))
        session.asking.add(replying)
        replying.add_done_callback(session.asking.discard)
        self._replies[asking.key] = session, replying
        while len(self._replies) > REMEMBERED or sum(self._sizes.values()) > REMEMBERED_BYTES:
            oldest = next(iter(self._replies))
            del self._replies[oldest]
            self._sizes.pop(oldest, None)
        return replying

    def _before(self, key: str, given: str | None, *, retried: bool) -> asyncio.Future[StoredAnswer] | None:
        """The reply to the same request, unless another episode may ask it: another agent's, or after an outcome."""
        if (known := self._replies.get(key)) is None:
            return None
        session, before = known
        same = self.sessions.is_last(session) if retried else given is not None and self.sessions.is_open(session)
        return before if same else None

    async def _ask(self, asking: Asking, content: bytes, *, warm: bool = False) -> upstream.UpstreamReply:
        """Send one request. A `warm` one is sent without a temperature if the model takes none."""
        reply = await upstream.post(self._client, asking.url, content, asking.headers)
        if reply.status == 400 and warm and asking.body.get("temperature", 0) is not None:
            asks = {name: value for name, value in asking.body.items() if name != "temperature"}
            reply = await upstream.post(self._client, asking.url, _whole(asks), asking.headers)
        return reply

    async def _reply(self, session: AgentSession, asking: Asking) -> StoredAnswer:
        """What the agent is to do: one of the upstream's replies. Steps of one session follow one another."""
        ranks = self.config.mode == "rank" and session.agent == self.sessions.arms[-1]
        several = ranks or self.config.explore or self.config.mode == "shadow"
        saving = kept(self.sessions.store.keep_pictures(asking.asked.seen), "a picture")  # while the upstream is asked
        replies, _ = await asyncio.gather(self._draw(asking, self.config.n if several else 1), saving)
        read = [(_read(asking, one), one) for one in replies]
        why, own = read[0]
        if self.config.repair and isinstance(why, str) and not any(isinstance(one, Candidate) for one, _ in read):
            own = await self._repair(asking, why, own)
            read.append((_read(asking, own), own))
        found = [(one, reply) for one, reply in read if isinstance(one, Candidate)]
        if not found and isinstance(why, str):
            self._tell(f"a step is not recorded, as no reply to it can be read: {why}")
        async with session.busy:
            if session.answered and session.answered[0] == asking.key:  # asked again meanwhile
                return StoredAnswer(session.answered[1], decision=True)
            decided = await self._choose_reply(session, asking, [one for _, one in read], own, found, ranks=ranks)
            response = decided or replies[0].response()  # without a decision the agent deals with it as it always has
            if asking.body.get("stream"):
                response = _as_stream(asking, response)
            answer = StoredAnswer(response, decision=decided is not None and response.status_code == 200)
            if answer.decision:
                session.answered = asking.key, response
            if asking.key in self._replies:
                self._sizes[asking.key] = len(response.body)
            return answer

    async def _repair(self, asking: Asking, problem: str, reply: upstream.UpstreamReply) -> upstream.UpstreamReply:
        """Asks again, with what is wrong with the reply."""
        assert reply.json is not None
        body, turns = asking.body, asking.wire.turns
        try:
            message = asking.wire.as_completion(reply.json)["choices"][0]["message"]
            again = chat.correct_request(body, turns, message, problem)
        except UNREADABLE:
            again = chat.correct_request(body, turns, {}, problem)
        return await self._ask(asking, _whole(again))

    async def _choose_reply(
        self,
        session: AgentSession,
        asking: Asking,
        replies: Sequence[upstream.UpstreamReply],
        own: upstream.UpstreamReply,
        found: Sequence[tuple[Candidate, upstream.UpstreamReply]],
        *,
        ranks: bool,
    ) -> Response | None:
        """The chosen reply, and its step is kept; None where none can be chosen."""
        first = replies[0]
        greedy = next((one for one, reply in found if reply is own), None)
        if not found or (greedy is None and not ranks):
            return None
        candidates, state = distinct(one for one, _ in found), session.state(asking.asked)
        scores, best = await self._rank(state, candidates, greedy)
        if ranks and best is None:
            return None
        chosen, chances = best if ranks and best is not None else 0, None
        if self.config.explore:
            chances = self._chances(session, candidates, state.observation)
            [chosen] = random.choices(range(len(candidates)), chances)
            session.explored += chosen > 0
        decision = Decision(
            candidates=candidates,
            scores=scores.values,
            state_value=scores.state_value,
            checkpoint=scores.checkpoint,
            scorer=type(self.scorer).__name__ if self.scorer else None,
            gate=scores.gate,
            chosen=chosen,
            explored=chances is not None and chosen > 0,
            propensities=chances,
            usage=(_usage(replies), *scores.usage),
        )
        taken = next(reply for one, reply in found if one.action == candidates[chosen].action)
        assert taken.json is not None
        message = asking.wire.as_completion(taken.json)["choices"][0]["message"]
        new: Mapping[str, str] = {}
        if self.sessions.is_open(session):  # else it was said meanwhile how it ended
            new = self.sessions.plant_ids(session, message)
            session.client = asking.client
            step = self.sessions.step(session, state, decision, text_of(message.get("content")))
            await kept(step, f"a step of the session {session.id!r}")
        if taken is first and not ranks and not new:
            return first.response()
        said = chat.with_ids(taken.json, new) if new else taken.json
        if ranks or taken is not first:
            said = {**said, "usage": (said.get("usage") or {}) | chat.total([one.json for one in replies if one.json])}
        return Response(json.dumps(said), headers=_own_headers(taken.headers), media_type="application/json")

    def _chances(self, session: AgentSession, candidates: Sequence[Candidate], seen: Observation) -> tuple[float, ...]:
        """With what probability each candidate [N] answers. The first is the agent's own reply. None of the others may
        seem irreversible, and a session has `explore_steps` of them at most."""
        free = session.explored < self.config.explore_steps
        able = [free and index > 0 and not chat.is_final(one, seen) for index, one in enumerate(candidates)]
        each = self.config.explore / max(1, sum(able))
        return (1 - each * sum(able), *(each * one for one in able[1:]))

    async def _draw(self, asking: Asking, n: int) -> list[upstream.UpstreamReply]:
        """The reply to the request as it came, then what has come of n - 1 others by the deadline."""
        own = asking.body.get("temperature")
        warmer = max(self.config.temperature, own if isinstance(own, int | float) else 0.0)
        asks = [self._ask(asking, _whole(asking.body) if asking.body.get("stream") else asking.raw)]
        if n > 1:  # written once: it may hold a picture
            content = _whole({**asking.body, "temperature": warmer})
            asks += [self._ask(asking, content, warm=True) for _ in range(n - 1)]
        drawing = [*map(asyncio.ensure_future, asks)]
        try:
            await asyncio.wait(drawing, timeout=self.config.deadline)
            if not any(one.done() for one in drawing):
                await asyncio.wait(drawing, return_when=asyncio.FIRST_COMPLETED)
            come = [one.result() for one in drawing if one.done()]
            return come if drawing[0].done() else [upstream.LATE, *come]
        finally:
            for one in drawing:
                one.cancel()

    async def _rank(
        self, state: State, candidates: Sequence[Candidate], greedy: Candidate | None
    ) -> tuple[Scores, int | None]:
        """The best candidate, None where there is none; one that seems irreversible only where the greedy one does."""
        if self.scorer is None or self.config.mode == "record":
            return Scores(values=(0.0,) * len(candidates)), 0
        scores = await self.scorer.score(state, candidates)
        bold = greedy is not None and chat.is_final(greedy, state.observation)
        able = [i for i, one in enumerate(candidates) if bold or not chat.is_final(one, state.observation)]
        if scores.shut and 0 in able:
            return scores, 0
        return scores, max(able, key=scores.values.__getitem__, default=None)


def _whole(asks: chat.Json) -> bytes:
    """A request whose reply is not streamed."""
    return json.dumps({name: one for name, one in asks.items() if name not in ("stream", "stream_options")}).encode()


def _read(asking: Asking, reply: upstream.UpstreamReply) -> Candidate | str | None:
    """Return a reply's action, or why it cannot be read. None for an unknown kind, which is forwarded."""
    if reply.json is None:
        return None
    try:
        return chat.candidate(asking.asked, asking.wire.as_completion(reply.json))
    except chat.Unreadable as error:
        return str(error)
    except UNREADABLE as error:
        return f"it has another form ({type(error).__name__})"


def _usage(replies: Sequence[upstream.UpstreamReply]) -> Usage:
    said = [one.json.get("usage") for one in replies if one.json]
    told = [usage for usage in said if isinstance(usage, Mapping)]
    tokens_in, tokens_out = (
        sum(token_count(usage.get(old, usage.get(new))) or 0 for usage in told)
        for old, new in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    return Usage(role="proposer", tokens_in=tokens_in, tokens_out=tokens_out, calls=len(replies))


async def _either(before: asyncio.Future[StoredAnswer], after: asyncio.Future[StoredAnswer]) -> StoredAnswer:
    """The first good reply of two requests for the same; the other is not waited for."""
    try:
        for one in asyncio.as_completed([before, after]):
            if (answer := await one).response.status_code == 200:
                break
        return answer
    finally:
        before.cancel()
        after.cancel()


def _as_stream(asking: Asking, response: Response) -> Response:
    """A good reply as events; a 502 where it cannot be read."""
    if response.status_code != 200:
        return response
    body = bytes(response.body)
    try:
        events = b"".join(asking.wire.as_events(json_in(body), asking.body))
    except UNREADABLE:
        return upstream.failure(502, f"the reply cannot be read: {body[:QUOTED].decode(errors='replace')}").response()
    return Response(events, headers=_own_headers(response.raw_headers), media_type="text/event-stream")


def _own_headers(headers: upstream.Headers) -> dict[str, str]:
    """Those of an upstream's reply that its content does not change: request ids, rate limits, …"""
    kept = upstream.filter_headers(headers, upstream.ENCODED | {b"content-type"})
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in kept}


async def _stream_reply(wire: chat.ApiAdapter, replying: asyncio.Future[StoredAnswer]) -> AsyncIterator[bytes]:
    """A comment at once and now and then until the reply is there, then its events or the error."""
    while not replying.done():
        yield b": waiting\n\n"
        await asyncio.wait([replying], timeout=KEPT_ALIVE)
    reply = upstream.LATE.response() if replying.cancelled() else replying.result().response
    body = bytes(reply.body)
    yield body if reply.status_code == 200 else wire.as_error(reply.status_code, body.decode(errors="replace"))
