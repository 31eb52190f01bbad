"""A pooling endpoint as vLLM serves one, over real HTTP on loopback."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jinja2
import numpy as np

from bestofq.core.embedding import EmbedItem
from bestofq.core.observation import Screenshot
from bestofq.models.embed_http import PoolingEndpoint
from bestofq.models.endpoint import EndpointConfig

FRAME = "<|vision_start|><|image_pad|><|vision_end|>"


def read(request: dict[str, Any]) -> EmbedItem:
    """The item of a request, as vLLM makes it: the chat's template gives the prompt, one mark a picture."""
    if "input" in request:
        return EmbedItem(text=request["input"])
    parts = request["messages"][0]["content"]
    prompt = jinja2.Template(request["chat_template"]).render(messages=request["messages"])
    shots = []
    for part in (part for part in parts if part["type"] == "image_url"):
        data = base64.b64decode(part["image_url"]["url"].partition("base64,")[2])
        # A server sees no size but the bytes' own.
        shots.append(
            Screenshot(sha256=hashlib.sha256(data).hexdigest(), media_type="image/png", width=99, height=99, data=data)
        )
    assert prompt.startswith(FRAME * len(shots))
    return EmbedItem(text=prompt.removeprefix(FRAME * len(shots)), screenshots=tuple(shots))


@contextmanager
def served(vector: Callable[[EmbedItem], np.ndarray], status: int = 200) -> Iterator[PoolingEndpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            data = [{"object": "embedding", "index": 0, "embedding": vector(read(request)).tolist()}]
            usage = {"prompt_tokens": 7, "total_tokens": 7}
            reply = {"object": "list", "model": request["model"], "data": data, "usage": usage}
            body = json.dumps(reply if status == 200 else {"error": {"message": "no such model"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    config = EndpointConfig(model="tiny", base_url=f"http://127.0.0.1:{server.server_port}/v1", attempts=1)
    endpoint = PoolingEndpoint(config)
    try:
        yield endpoint
    finally:
        endpoint.close()
        server.shutdown()
        thread.join()
        server.server_close()
