"""What a run needs and can be looked at before its first call: endpoints and keys, sites and their hosts, disk, memory.

No model is asked and nothing is written; of a live site the start page is opened.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import get_args
from urllib.parse import urlsplit

from bestofq.cli.findings import Finding
from bestofq.config.models import Models
from bestofq.core.errors import BestOfQError
from bestofq.core.identity import Endpoint
from bestofq.core.observation import Task
from bestofq.core.protocols import EnvFactory, Suite
from bestofq.models.chat import HERE, ChatConfig, ChatModel
from bestofq.models.shipped import find_model
from bestofq.store.location import Location

ANSWERS = 15.0  # seconds an endpoint has to say what models it has
WORKING = 3e9  # bytes beside an embedder's weights: a batch of pictures


async def preflight(
    models: Models, suite: Suite, tasks: Sequence[Task], store: Location, *, stored: float, learns: bool, embeds: bool
) -> list[Finding]:
    """`stored`: bytes to be kept. `learns`: whether the run is learned from. `embeds`: whether one is loaded."""
    chosen = models.settings
    names = dict.fromkeys(getattr(chosen, role) for role in get_args(Endpoint))  # an endpoint may have several roles
    used = {name: chosen.endpoints[name] for name in names if name is not None}
    away = {name: chat for name, chat in used.items() if chat.base_url != HERE}
    found = list(await asyncio.gather(*(_endpoint(name, chat) for name, chat in away.items())))
    found += [_room(name, chat.model, chosen.model.device) for name, chat in used.items() if name not in away]
    if suite.needs_judge and suite.judge is None and not (chosen.judge or chosen.own_judge):
        said = "nobody says how episodes ended: they stay unjudged, and teach nothing"
        found.append(Finding(what="judge", found=said, fix="--set endpoints.judge.model=…", required=learns))
    if not suite.sandboxed:
        found += await _sites(suite, tasks, chosen.suite.at_once)
    if stored:
        found.append(_disk(store, stored))
    if embeds and chosen.model.embedder and ":" not in chosen.model.embedder:
        found.append(_room("embedder", chosen.model.embedder, chosen.model.device))
    return found


async def tunable(models: Models, store: Location) -> list[Finding]:
    """Whether a policy can be tuned on what the endpoint draws: its tokens, asked for by a few calls, room on GPUs for
    the weights, and on the disk for the tuned ones. Nothing if `token_ids` of the endpoint is not set."""
    chosen = models.settings
    chat = chosen.endpoint_of("chat")
    if chat is None or not chat.token_ids:
        return []
    tokens = replace(await _endpoint(str(chosen.chat), chat), what="token ids")
    if not tokens.fix:  # else nobody answers, and would be asked for a minute
        tokens = await _token_ids(models)
    from bestofq.learning.memory import gpus_here, tuning_memory  # with PyTorch

    path, dpo, sizes = chosen.model.path, chosen.agent_q.dpo, gpus_here()
    try:
        rows = {gpus: tuning_memory(str(find_model(path)), dpo, gpus) for gpus in (1, 8, len(sizes) or 1)}
    except (OSError, ValueError) as error:
        said = str(error).partition("\n")[0]
        return [tokens, Finding(what=f"tune: {path}", found=said, fix="--set model.path=…", required=False)]
    needed = ", ".join(f"{rows[gpus].all / 1e9:,.1f} GB on each of {gpus}" for gpus in (1, 8))
    here = f"{len(sizes)} of {min(sizes) / 1e9:,.0f} GB" if sizes else "none"
    fix = "" if sizes and rows[len(sizes)].all <= min(sizes) else "tune where GPUs have that much"
    room = Finding(what=f"tune: {path}", found=f"about {needed} GPUs; here: {here}", fix=fix, required=False)
    return [tokens, room, replace(_disk(store, rows[1].stored), what="disk: the tuned weights")]


async def _token_ids(models: Models) -> Finding:
    try:
        async with aclosing(models):
            await models.check_token_ids()
    except BestOfQError as error:
        return Finding(what="token ids", found=str(error), fix="see docs/how-to/agent-q.md")
    return Finding(what="token ids", found="told with their log-probabilities, at temperature 1")


async def _endpoint(name: str, chat: ChatConfig) -> Finding:
    what = f"{name}: {chat.model}"
    key = "is set" if os.environ.get(chat.key_variable, "").strip() else "is not set"
    try:
        async with ChatModel(chat.model_copy(update={"attempt": ANSWERS})) as model:
            offered = await model.list_models()
    except BestOfQError as error:
        fix = f"start it there, --set endpoints.{name}.base_url=…, or export {chat.key_variable}=…"
        return Finding(what=what, found=str(error), fix=fix)
    if offered is not None and not {chat.model, f"models/{chat.model}", f"{chat.model}:latest"} & {*offered}:
        some = ", ".join(offered[:5])
        return Finding(what=what, found=f"{chat.base_url} has {some}", fix=f"--set endpoints.{name}.model={offered[0]}")
    return Finding(what=what, found=f"{chat.base_url} answers; {chat.key_variable} {key}")


async def _sites(suite: Suite, tasks: Sequence[Task], at_once: int) -> list[Finding]:
    """A row for each start page that does not open, or asked for hosts in vain; one for all others."""
    first = {urlsplit(task.start_url).netloc: task for task in reversed(tasks)}
    turns = asyncio.Semaphore(at_once)

    async def look(host: str, task: Task, make_env: EnvFactory) -> Finding | None:
        async with turns:
            env = await make_env()
            try:
                refused = (await env.reset(task, seed=task.seed)).refused or ()
            except BestOfQError as error:
                return Finding(
                    what=f"site {host}", found=str(error), fix=f"leave it out: --set suite.only=…, or open {host}"
                )
            finally:
                await env.close()
        more = ", ".join(f"'{name}'" for name in refused[:6])
        said = f"opens; {len(refused)} hosts it asked for are not allowed"
        fix = f'--set "suite.allow=[{more}]", if the page lacks them'
        return Finding(what=f"site {host}", found=said, fix=fix, required=False) if refused else None

    try:
        async with suite.open() as make_env:
            rows = await asyncio.gather(*(look(host, task, make_env) for host, task in sorted(first.items())))
    except BestOfQError as error:
        return [Finding(what="sites", found=str(error), fix="bestofq doctor")]
    open_ = sum(row is None or not row.required for row in rows)
    free = sum(not task.allowed_hosts for task in tasks)
    held = f"{len(tasks) - free:,} tasks are held to their hosts, {free:,} to none"
    return [Finding(what="sites", found=f"{open_} of {len(rows)} start pages open; {held}"), *filter(None, rows)]


def _disk(store: Location, needed: float) -> Finding:
    place = next(one for one in (store.folder.absolute(), *store.folder.absolute().parents) if one.exists())
    free = shutil.disk_usage(place).free
    fix = f"free {(needed - free) / 1e9:,.1f} GB there, or give another folder" if free < needed else ""
    return Finding(
        what="disk", found=f"{free / 1e9:,.1f} GB free in {place}, about {needed / 1e9:,.1f} needed", fix=fix
    )


def _room(role: str, name: str, device: str) -> Finding:
    from bestofq.models.checkpoints import room_for  # with PyTorch

    try:
        room = room_for(str(find_model(name)), device)
    except (RuntimeError, AssertionError) as error:  # PyTorch's own, of a device that is not there
        return Finding(what=f"{role}: {name}", found=str(error).partition("\n")[0], fix="--set model.device=cpu")
    what, has = f"{role}: {name}", f"{room.device} has {room.free / 1e9:,.1f} GB"
    if room.needed is None:
        return Finding(what=what, found=f"{has}; its size is not known before it is there")
    needed = room.needed + WORKING
    said = f"{has}, about {needed / 1e9:,.1f} needed"
    if needed > room.free:
        return Finding(what=what, found=said, fix="--set model.device=…, or another model")
    slow = room.needed > 2e9 and not room.device.startswith("cuda")
    fix = "a GPU reads pages many times faster" if slow else ""
    return Finding(what=what, found=said, fix=fix, required=False)
