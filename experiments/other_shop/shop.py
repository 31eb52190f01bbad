"""Fell & Fern, a small shop for outdoor clothes. Its pages are drawn by page/shop.js; only the server knows the orders.

No page states that "Add to basket" does nothing before a size is chosen, and that for boots and jackets "Quick buy"
sends size M, whatever was chosen.
"""

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PAGES = Path(__file__).parent / "page"
WORDS = json.loads((PAGES.parent / "words.json").read_text("utf-8"))
KINDS = ["shirt", "boots", "mittens", "jacket"]


class Garment(NamedTuple):
    id: str
    name: str
    kind: str
    split: str
    price: int


class Errand(NamedTuple):
    id: str
    product: Garment
    size: str


PRODUCTS = {
    word.lower(): Garment(word.lower(), f"{word} {KINDS[i % 4]}", KINDS[i % 4], split, 19 + 7 * i % 60)
    for split, words in WORDS.items()
    for i, word in enumerate(words)
}


def tasks(split: str) -> list[Errand]:
    """A task for each product, four in S, then four in L, and so on; then the other sizes."""
    products = [product for product in PRODUCTS.values() if product.split == split]
    pairs = [("SL"[(i // 4 + turn) % 2], product) for turn in range(2) for i, product in enumerate(products)]
    return [Errand(f"{p.id}-{size}", p, size) for size, p in pairs]


class GarmentShop(ThreadingHTTPServer):
    """Baskets and orders by the cookie of the visitor."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.baskets: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.orders: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, visitor: str, path: str, asked: dict[str, str]) -> Any:
        basket, orders = self.baskets[visitor], self.orders[visitor]
        match path:
            case "/api/list":
                found = [p._asdict() for p in PRODUCTS.values() if (p.kind, p.split) == (asked["kind"], asked["part"])]
                return {"department": asked["kind"].capitalize(), "products": found}
            case "/api/add":
                basket.append((asked["id"], asked["size"]))
            case "/api/empty":
                basket.clear()
            case "/api/quick":
                wrong = PRODUCTS[asked["id"]].kind in ("boots", "jacket")
                orders.append((asked["id"], "M" if wrong or not asked["size"] else asked["size"]))
            case "/api/checkout":
                orders.extend(basket)
                basket.clear()
        return {"lines": [f"{PRODUCTS[name].name}, size {size}" for name, size in basket], "number": 100 + len(orders)}


class Handler(BaseHTTPRequestHandler):
    server: GarmentShop

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.startswith("/api/"):
            return self.api(url.path, {key: values[0] for key, values in parse_qs(url.query).items()})
        name, kind = ("shop.js", "text/javascript") if url.path == "/shop.js" else ("index.html", "text/html")
        return self.reply((PAGES / name).read_bytes(), kind)

    def do_POST(self) -> None:
        self.api(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def api(self, path: str, asked: dict[str, str]) -> None:
        self.reply(json.dumps(self.server.answer(self.headers["Cookie"], path, asked)).encode(), "application/json")

    def reply(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...
