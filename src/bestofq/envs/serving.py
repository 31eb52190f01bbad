"""Serve the local sites of environments on loopback, in the event loop that visits them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from bestofq.core.errors import InfraError


class _Server(uvicorn.Server):
    """Leaves signals to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_app(app: ASGIApp) -> AsyncIterator[str]:
    """The application's root, `http://127.0.0.1:port`, until the context ends. InfraError if it does not start."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # with a TCP socket asyncio sends at once
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", access_log=False, date_header=False, timeout_graceful_shutdown=1
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if serving.done():
                raise InfraError("a local site could not be started on a loopback port")
            await asyncio.sleep(0)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()
