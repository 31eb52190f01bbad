"""Serve the local sites of environments on loopback, in the event loop that visits them."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def serve_app(app: ASGIApp) -> AsyncIterator[str]:
    """The application's root, `http://127.0.0.1:port`, until the context ends."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # with a TCP socket asyncio sends at once
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", access_log=False, date_header=False, timeout_graceful_shutdown=1
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])  # `serve` looks but every tenth of a second whether it should end
    await server.on_tick(0)  # its headers
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[listener])
