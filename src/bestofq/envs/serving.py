"""Serve the local sites of environments on loopback, in the event loop that visits them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from bestofq.core.errors import InfraError


class _Server(uvicorn.Server):
    """Leaves signals to its process and ends at once. uvicorn's own server polls ten times a second for its end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        for task in state.tasks:
            task.cancel()


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
        server.ended.set()
        await serving
        listener.close()
