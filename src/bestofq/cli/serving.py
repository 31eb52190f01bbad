"""`bestofq serve`: the store, the Q-function and the server."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import uvicorn
from pydantic import JsonValue, TypeAdapter
from rich.console import Console

from bestofq import __version__
from bestofq.core.decision import Provenance
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.loading import validate_settings
from bestofq.models.endpoint import address_of
from bestofq.recipes.provenance import this_command
from bestofq.serve.app import ServeConfig, proxy_app
from bestofq.serve.sessions import Sessions
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.viewer.server import listen


def serve_before(
    upstream: str,
    q: Path | None,
    embedder: str | None,
    asked: Mapping[str, object],
    *,
    arms: bool,
    run: str,
    where: Location,
    port: int,
    console: Console,
) -> None:
    """Serve until interrupted. InputError where the upstream is no address or the port is taken, ConfigError where
    there is nothing to compare."""
    config = validate_settings(TypeAdapter(ServeConfig), asked)
    try:
        address_of(upstream)
    except ValueError as error:
        raise InputError(f"--upstream {error}") from None
    if arms and config.mode != "rank":
        raise ConfigError("--ab compares answers by a Q-function with those without: give --rank Q, too")
    scorer = None
    if q is not None:
        from bestofq.recipes.ranker import Ranker  # with PyTorch, which recording does not need

        scorer = Ranker.load(q, embedder=embedder).scorer
    agents = ("prompting", "best-of-q") if arms else ("best-of-q",) if config.mode == "rank" else ("prompting",)
    made = Provenance(version=__version__, command=this_command())
    with listen("127.0.0.1", port) as listener, Store.open(where) as store:
        checkpoint = scorer.checkpoint if scorer else None
        settings: dict[str, JsonValue] = {
            "chat": {"model": f"the model behind {upstream}"},  # so that training asks what embeds its texts
            "serve": config.model_dump(mode="json"),
            "q": checkpoint,
        }
        asyncio.run(store.begin_run(run, settings, made))
        for agent in agents:
            asyncio.run(store.interrupt(run, agent))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        console.print(f"{address} stands before {upstream}: {config.mode} (stop it with Ctrl-C)", soft_wrap=True)
        app = proxy_app(config, upstream, Sessions(store, run, made, agents), scorer)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
