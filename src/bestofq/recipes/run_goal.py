"""One goal on any web page, recorded as a benchmark's episodes are; whether it was reached, only the user can say."""

import asyncio
import contextlib
import hashlib
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import JsonValue

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.actions import Impossible, address
from bestofq.core.decision import Episode, Provenance, Verdict
from bestofq.core.errors import InfraError, InputError
from bestofq.core.identity import key_of
from bestofq.core.observation import Task
from bestofq.core.secrets import keep_secrets_of
from bestofq.envs.web import WebEnv
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.resuming import claim_orphans
from bestofq.store.records import EpisodeKey
from bestofq.store.store import Store

SUITE = "web"


def own_hosts(url: str) -> tuple[str, ...]:
    """The address's host without `www.` and those below it; of loopback or a bare number the host with its port."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    try:
        bare = name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        bare = False
    site = name.removeprefix("www.")
    return (parts.netloc.rpartition("@")[2],) if bare else (site, f"*.{site}")


def page_task(goal: str, url: str, *, hosts: Sequence[str] | None = ()) -> Task:
    """Return the task of a goal on a page. `hosts` are allowed, too; None: any. InputError if it is no web address."""
    try:
        start = address(url)
        _ = urlsplit(start).port
    except (Impossible, ValueError) as error:  # ValueError: brackets of no IPv6 address, a port above 65535
        raise InputError(f"{url} is no web address ({error})") from error
    keep_secrets_of(urlsplit(start)._replace(query="", fragment="").geturl())  # `?keyword=…` is no key
    digest = hashlib.sha256(f"{goal}\x1f{start}".encode()).hexdigest()[:12]
    allowed = () if hosts is None else tuple(dict.fromkeys((*own_hosts(start), *hosts)))
    group = urlsplit(start).hostname
    return Task(id=digest, suite=SUITE, goal=goal, start_url=start, allowed_hosts=allowed, group=group)


@dataclass(frozen=True)
class UserJudge:
    """`Judge`: the user's word. Without one an episode stays unjudged until `bestofq judge` says how it ended."""

    ask: Callable[[Episode], Awaitable[bool | None]] | None = None
    name: str = "user"

    async def judge(self, episode: Episode) -> Verdict:
        said = await self.ask(episode) if self.ask else None
        if said is None:
            return Verdict(reward=0.0, outcome="unjudged")
        reason = f"the user: it {'did' if said else 'did not do'} what was wanted"
        return Verdict(reward=float(said), outcome="success" if said else "failure", reason=reason)


async def visit(
    env: WebEnv,
    agent: Agent,
    task: Task,
    *,
    store: Store,
    config: Mapping[str, JsonValue],
    options: EpisodeOptions,
    again: bool = False,
) -> Episode:
    """Run one more episode of the task in the run that `config` names. If cancelled, it is stored as `interrupted`.

    An episode whose process died continues from its last step if its actions lead to the same pages again. InputError
    if it was allowed something irreversible, unless it may be done `again`.
    """
    intended = f"intent {task.id}"
    if (intent := store.note(intended)) and not again:
        raise InputError(
            f"an earlier run of this goal did not end, and may have done what it was allowed to: {intent} Look on the "
            "site whether it is done; --again runs the goal all the same"
        )
    ask = env.approve

    async def approve(question: str) -> bool:
        if allowed := bool(ask and await ask(question)):
            await store.keep_note(intended, question)
        return allowed

    env.approve = approve if ask else None
    run = f"{SUITE}-{key_of(config)[:8]}"
    await store.begin_run(run, config, options.provenance or Provenance(version=__version__))
    left = await claim_orphans(store, run, agent.name, lambda key: key.task == task.id, options.irreversible)
    before = store.summaries(run=run, agent=agent.name, suite=SUITE, status=None)
    repeat = 1 + max((s.key.repeat for s in before if s.key.task == task.id), default=-1)
    key = max(left, default=EpisodeKey(SUITE, task.id, repeat))
    try:
        episode = await record_episode(
            agent, env, task, store=store, run=run, repeat=key.repeat, options=options, begun=left.get(key)
        )
        if episode.verdict.outcome != "infra_error":
            await store.keep_note(intended, None)
        return episode
    except asyncio.CancelledError:
        await store.interrupt(run, agent.name)
        raise
    finally:
        with contextlib.suppress(InfraError):
            await env.close()
