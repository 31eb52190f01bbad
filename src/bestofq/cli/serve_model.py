"""Serve a local model behind an OpenAI-compatible endpoint on loopback; its seeds give the draws made here."""

from contextlib import suppress
from typing import Annotated

import uvicorn
from typer import Option

from bestofq.cli.options import CommonOptions, Config, Model, Set
from bestofq.cli.shared import models_of
from bestofq.models.serving import model_app
from bestofq.rollouts.console import console
from bestofq.serve.guard import UpstreamGuard
from bestofq.viewer.server import listen


def serve_model(
    model: Model = None,
    port: Annotated[int, Option(min=0, max=65535, help="Of the loopback interface.")] = 8000,
    config: Config = None,
    set_: Set = None,
) -> None:
    with listen("127.0.0.1", port) as listener, suppress(KeyboardInterrupt):
        app = model_app(models_of(CommonOptions(config=config, set_=set_, model=model)).local)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        console.print(f"{address} serves it (stop it with Ctrl-C)", soft_wrap=True)
        uvicorn.Server(uvicorn.Config(UpstreamGuard(app))).run(sockets=[listener])
