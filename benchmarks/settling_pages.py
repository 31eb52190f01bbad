"""The pages of benchmarks/settling.py (`data/settling.toml`), and a server whose answers come late."""

import base64
import hashlib
import json
import random
import threading
import time
import tomllib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

BASICS = """const out = document.querySelector("#out"), go = document.querySelector("#go");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const get = (ms, text = "ok") => fetch(`/wait/${ms}/${encodeURIComponent(text)}`).then((reply) => reply.text());
const put = (text) => { out.textContent = text };
"""
DELAYS = (250, 600, 900)  # ms
GROUPS = ("clicked", "loaded", "restless")
KINDS = tomllib.loads(Path(__file__).with_name("data").joinpath("settling.toml").read_text("utf-8"))
HELD_OUT = frozenset(kind for group in KINDS["held_out"].values() for kind in group)


class Case(NamedTuple):
    """A page and what it must show."""

    kind: str
    path: str
    html: str
    text: str  # what is to be seen at the end
    click: bool  # after a click
    restless: bool


def make_cases(seed: int) -> list[Case]:
    """Three pages of each restless kind, two of each other."""
    draw = random.Random(seed)
    cases = []
    for group in GROUPS:
        click, restless = group != "loaded", group == "restless"
        for kind, script in (KINDS[group] | KINDS["held_out"][group]).items():
            for number, delay in enumerate(DELAYS if restless else (DELAYS[0], DELAYS[-1])):
                text = f"Order {draw.randrange(10_000, 99_999)}"
                work = script.replace("{t}", text).replace("{ms}", str(delay))
                clicks = click and not (restless and number == 0)  # of three restless pages one is only loaded
                if restless:
                    work = f"{work}; go.onclick = () => put('{text}')" if clicks else f"put('{text}'); {work}"
                elif click:
                    work = f"go.onclick = async () => {{ {work} }}"
                html = (
                    f"<!doctype html><meta charset=utf-8><title>{kind}</title><h1>Orders</h1>"
                    f"<button id=go>Go</button><p id=out>-</p><script>{BASICS}{work}</script>"
                )
                cases.append(Case(kind, f"/case/{kind.replace(' ', '-')}/{number}", html, text, clicks, restless))
    return cases


class LateServer:
    """Serves the cases on 127.0.0.1, and answers after the milliseconds that an address names."""

    def __init__(self, cases: list[Case]) -> None:
        pages = {case.path: case.html for case in cases}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with suppress(OSError):
                    self.answer()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.do_GET()

            def answer(self) -> None:
                path = unquote(self.path.partition("?")[0])
                if path in pages:
                    self.send(pages[path])
                    return
                _, what, *rest = path.split("/")
                delay, text = (
                    (int(rest[0]) if rest and rest[0].isdigit() else 0) / 1000,
                    rest[1] if len(rest) > 1 else "",
                )
                if what in {"socket", "ticker"}:
                    self.talk(delay, text, endless=what == "ticker")
                    return
                if what == "ad":
                    draw = f"setInterval(() => document.body.replaceChildren(Math.random()), {rest[0]})"
                    self.send(f"<script>{draw}</script>ad")
                    return
                time.sleep(delay)
                kinds = {"module": "text/javascript", "script": "text/javascript", "stream": "text/event-stream"}
                body = {
                    "module": f"export default {json.dumps(text)}",
                    "script": f"put({json.dumps(text)})",
                    "stream": f"data: {text}\n\n",
                    "page": f"<!doctype html><title>page</title><p>{text}",
                }
                self.send(body.get(what, text), kinds.get(what, "text/html"))

            def send(self, body: str, kind: str = "text/html") -> None:
                data = body.encode()
                self.send_response(200)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def talk(self, delay: float, text: str, *, endless: bool) -> None:
                """A WebSocket that says `text` after a while, or a number again and again."""
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
                self.end_headers()
                self.close_connection = True
                for number in range(200 if endless else 1):
                    time.sleep(delay)
                    data = (f"price {number}" if endless else text).encode()
                    self.wfile.write(bytes([0x81, len(data)]) + data)
                    self.wfile.flush()
                time.sleep(5)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
