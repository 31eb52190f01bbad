"""Which episode a request belongs to, and its record: each session of an agent is an episode in the store."""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from bestofq.core.decision import DECIDED, Decision, Outcome, Provenance, State, Step, Verdict
from bestofq.core.errors import BestOfQError, DataError
from bestofq.core.identity import key_of
from bestofq.core.observation import Task
from bestofq.envs.splits import uniform
from bestofq.interop.nouns import UNJUDGED, text_of
from bestofq.reports.rollout import Rollout
from bestofq.serve.wire import DecisionRequest, Json, ids_of
from bestofq.store.store import Store

log = logging.getLogger(__name__)
SUITE = "serve"


@dataclass(kw_only=True)
class AgentSession:
    """One episode of an agent, as far as it has come."""

    id: str
    agent: str
    task: Task
    episode: str | None = None  # in the store, from its first step on
    decisions: list[Decision] = field(default_factory=list)  # those that are stored
    steps: int = 0  # those that could not be stored, too
    quoted: tuple[str, ...] = ()  # of the last reply, what the agent's next request repeats
    asking: set[asyncio.Future[Any]] = field(default_factory=set)  # its replies that are under way
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)  # one step at a time
    answered: tuple[str, Response] | None = None  # the last request that had a decision, and that
    explored: int = 0  # steps whose answer was not the agent's own
    client: str = ""  # who took the last step
    active: float = 0.0  # when that was, on a clock of its own

    def state(self, asked: DecisionRequest) -> State:
        """What Q reads."""
        return State(task=self.task, decisions=tuple(self.decisions), observation=asked.seen)


@dataclass
class Sessions:
    """The open episodes of one run. `arms` names the agents that sessions are dealt to, by a hash of their ids: as many
    to each, or as the `rollout` says to the last."""

    store: Store
    run: str
    made: Provenance
    arms: tuple[str, ...]
    rollout: Rollout | None = None
    _all: dict[str, AgentSession] = field(default_factory=dict)
    _of_id: dict[str, AgentSession] = field(default_factory=dict)  # by ids of their tool calls or responses
    _repeats: Counter[tuple[str, str]] = field(default_factory=Counter)
    ended: Counter[Outcome] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for one in self.store.summaries(run=self.run, status=None):
            at = (one.agent, one.key.task)
            self._repeats[at] = max(self._repeats[at], one.key.repeat + 1)

    def of(self, asked: DecisionRequest, given: str | None) -> AgentSession:
        """The session that the client named; else the one whose replies the request repeats; else a new one."""
        found = self._all.get(given) if given else self._match_replies(asked)
        return found or self._new(asked, given or secrets.token_hex(8))

    async def begin_anew(self, asked: DecisionRequest, given: str | None) -> None:
        """End the episode of the session that the client named, if the request begins with another goal."""
        known = self._all.get(given or "")
        if known is None or asked.replies or asked.goal == known.task.goal:
            return
        log.warning("the session %r has a new goal, so a new episode begins: if only the page is new, put it and the "
                    "goal into two messages", known.id)  # fmt: skip
        if known.episode is None:
            del self._all[known.id]
        else:
            await kept(self.outcome(known.id, UNJUDGED), f"the end of the session {known.id!r}")

    def _match_replies(self, asked: DecisionRequest) -> AgentSession | None:
        """Find a session by the ids of its replies, else by the words of its last one under the same goal. Prefer one
        that waits for no reply, then the longest history."""
        for one in (one for message in reversed(asked.replies) for one in ids_of(message)):
            if found := self._of_id.get(one):
                return found
        said = "\n".join(text_of(one.get("content")) for one in asked.replies)
        text = said if asked.kind == "tools" else asked.text  # with tools, replies are repeated word for word
        goal = [one for one in self._all.values() if one.task.goal == asked.goal]
        counted = [one for one in goal if asked.step in (None, one.steps)]
        quoted = [one for one in counted if one.quoted and all(words in text for words in one.quoted)]
        return max(quoted, key=lambda one: (not one.asking, len(one.decisions)), default=None)

    def _new(self, asked: DecisionRequest, name: str) -> AgentSession:
        share = self.rollout.share if self.rollout else 1 / len(self.arms)
        arm = self.arms[-1 if uniform(key_of({"session": name})) < share else 0]
        task = Task(id=key_of({"goal": asked.goal}), suite=SUITE, goal=asked.goal, start_url="", split="train")
        return self._all.setdefault(name, AgentSession(id=name, agent=arm, task=task))

    def is_open(self, session: AgentSession) -> bool:
        """Whether nobody has said how it ended."""
        return self._all.get(session.id) is session

    def is_last(self, session: AgentSession) -> bool:
        """Whether no later one has its name."""
        return self._all.get(session.id, session) is session

    def plant_ids(self, session: AgentSession, message: Json) -> dict[str, str]:
        """Ids of this reply by which the session can be known; new ones for those that another session has."""
        new: dict[str, str] = {}
        for one in ids_of(message):
            if self._of_id.get(one, session) is not session and one != message.get("response_id"):
                new[one] = f"call_{secrets.token_hex(12)}"
            self._of_id[new.get(one, one)] = session
        return new

    async def step(self, session: AgentSession, state: State, decision: Decision, said: str) -> None:
        """Keeps a step; `said` are the words of the reply. Where that fails, the next step has its number."""
        if session.episode is None:
            at = (session.agent, session.task.id)
            repeat, self._repeats[at] = self._repeats[at], self._repeats[at] + 1
            task = session.task.model_copy(update={"group": urlsplit(state.observation.url).hostname})
            session.episode = await self.store.begin_episode(self.run, session.agent, task, repeat, self.made)
        step = Step(index=len(session.decisions), observation=state.observation, decision=decision)
        session.steps += 1
        session.active = time.monotonic()
        chosen = decision.candidate  # agents write note and thought into their next request; a tool call has an id
        quoted = filter(None, (chosen.note, chosen.explanation or chosen.thought))
        session.quoted = tuple(quoted) or tuple(filter(None, (said.strip(),)))
        await self.store.append_step(session.episode, step)
        session.decisions.append(decision)

    def last(self, client: str) -> str:
        """The open session of a client, "" for any, with the latest step. DataError if there is none."""
        begun = [one for one in self._all.values() if one.episode and client in ("", one.client)]
        if not begun:
            raise DataError(f"there is no open session in the run {self.run}, or none of this key")
        return max(begun, key=lambda one: one.active).id

    async def outcome(self, name: str, verdict: Verdict) -> None:
        """How a session ended. DataError where there is none of that name with a step, or it has ended."""
        if (session := self._all.get(name)) is None or session.episode is None:
            raise DataError(f"there is no open session {name!r} in the run {self.run}")
        del self._all[name]
        self._of_id = {name: one for name, one in self._of_id.items() if one is not session}
        try:
            async with session.busy:
                await self.store.finish_episode(session.episode, verdict, None)
            self.ended[verdict.outcome] += 1
            if self.rollout and verdict.outcome in DECIDED:
                before, won = self.rollout, verdict.outcome == "success"
                self.rollout = before.after(won, ranked=session.agent == self.arms[-1])
                if before.share != self.rollout.share and (self.rollout.share in (0, 1) or before.share in (0, 1)):
                    log.warning(self.rollout.describe())
        except Exception:  # it can be said again
            self._all.setdefault(name, session)
            raise

    async def apply_verdict(self, asked: DecisionRequest, given: str | None, verdict: Verdict) -> None:
        """Store a verdict of the agent's own judge on the session that the client named. Without a name, it is on the
        only session with the longest goal in the request."""
        begun = [one for one in self._all.values() if one.decisions]
        found = [one for one in begun if (one.id == given if given else one.task.goal in asked.text)]
        longest = max((len(one.task.goal) for one in found), default=0)
        about = [one.id for one in found if len(one.task.goal) == longest]
        if len(about) == 1:
            await self.outcome(about[0], verdict)

    async def close(self) -> None:
        """What was never judged is kept, unjudged: it teaches nothing until `bestofq judge` says how it ended."""
        for session in list(self._all.values()):
            if session.episode:
                await kept(self.outcome(session.id, UNJUDGED), f"the end of the session {session.id!r}")


async def kept(saving: Awaitable[None], what: str) -> None:
    """Waits until it is stored. A failure is only logged, an unexpected one with its traceback: the agent is served."""
    try:
        await saving
    except Exception as error:
        log.warning("%s is not recorded: %s", what, error, exc_info=not isinstance(error, BestOfQError))
