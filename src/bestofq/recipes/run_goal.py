"""One goal on any web page, recorded as a benchmark's episodes are; whether it was reached, only the user can say."""

import asyncio
import contextlib
import hashlib
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import JsonValue

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.actions import Impossible, address
from bestofq.core.decision import Episode, Provenance, Verdict
from bestofq.core.errors import InfraError, InputError
from bestofq.core.observation import Task
from bestofq.envs.web import WebEnv
from bestofq.rollouts.episode import EpisodeOptions, run_episode
from bestofq.store.schema import Status
from bestofq.store.store import Store

SUITE = "web"
_EVERY: tuple[Status, ...] = ("running", "finished", "cut", "interrupted")


def own_hosts(url: str) -> tuple[str, ...]:
    """A site's own hosts, for `Task.allowed_hosts`: the address's host and those below it, `www.` aside; on loopback
    and for a bare number the one port too."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if name == "localhost":
            return (parts.netloc.rpartition("@")[2],)
        site = name.removeprefix("www.")
        return (site, f"*.{site}")
    return (parts.netloc.rpartition("@")[2],)


def page_task(goal: str, url: str, *, hosts: Sequence[str] | None = ()) -> Task:
    """The task of a goal on a page; `hosts` are allowed besides the page's own, None: any host.

    The same goal and address are the same task. InputError when `url` is no web address.
    """
    try:
        start = address(url)
    except Impossible as error:
        raise InputError(str(error)) from error
    digest = hashlib.sha256(f"{goal}\x1f{start}".encode()).hexdigest()[:12]
    allowed = () if hosts is None else tuple(dict.fromkeys((*own_hosts(start), *hosts)))
    return Task(id=digest, suite=SUITE, goal=goal, start_url=start, allowed_hosts=allowed)


@dataclass(frozen=True)
class UserJudge:
    """`Judge`: the user's word; `ask` answers None where there is no user, or the user leaves it open.

    Such an episode stays unjudged: it teaches nothing, until `bestofq judge` says how it ended.
    """

    ask: Callable[[Episode], Awaitable[bool | None]]
    name: str = "user"

    async def judge(self, episode: Episode) -> Verdict:
        said = await self.ask(episode)
        if said is None:
            return Verdict(reward=0.0, outcome="unjudged")
        if said:
            return Verdict(reward=1.0, outcome="success", reason="the user: it did what was wanted")
        return Verdict(reward=0.0, outcome="failure", reason="the user: it did not do what was wanted")


async def visit(
    env: WebEnv, agent: Agent, task: Task, *, store: Store, config: Mapping[str, JsonValue], options: EpisodeOptions
) -> Episode:
    """One more episode of the task, in the run that `config` names; `env` is closed.

    Cancelled, it leaves its steps in the store as an `interrupted` episode.
    """
    body = json.dumps(config, sort_keys=True)
    run = f"{SUITE}-{hashlib.sha256(body.encode()).hexdigest()[:8]}"
    await store.begin_run(run, config, options.provenance or Provenance(version=__version__))
    await store.interrupt(run, agent.name)
    before = (s for status in _EVERY for s in store.summaries(run=run, agent=agent.name, suite=SUITE, status=status))
    repeat = 1 + max((s.key.repeat for s in before if s.key.task == task.id), default=-1)
    try:
        return await run_episode(env, agent, task, store=store, run=run, repeat=repeat, options=options)
    except asyncio.CancelledError:
        await store.interrupt(run, agent.name)
        raise
    finally:
        with contextlib.suppress(InfraError):
            await env.close()
