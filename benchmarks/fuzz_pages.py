"""Generated pages that mean harm, read and acted on; each reading beside Chromium's own accessibility tree.

    python benchmarks/fuzz_pages.py --pages 10000 --out benchmarks/results/fuzz_pages.json

A page is drawn from a grammar: fields named after DOM properties, hidden text, shadow roots, frames, custom elements
and prototypes that throw, odd addresses, dialogs, handlers that remove what is touched. Every word of it is a token
that occurs once. Counted are episodes that would have been cut, and tokens and roles that only one of the two readings
has, each by what the grammar did around it; what nothing explains is listed with the page's number.
"""

import argparse
import asyncio
import html
import json
import os
import platform
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.browser.tab import Moved
from bestofq.core.actions import Action, Clear, Click, GoBack, Goto, Scroll, Submit, Wait, Write
from bestofq.core.observation import Observation

SIDE_BY_SIDE = 4  # pages at once
TOKEN = re.compile(r"t\d+q")
_NAMES = (
    "tagName localName nodeType childNodes parentNode firstChild textContent getAttribute hasAttribute "
    "matches closest checkVisibility getBoundingClientRect getClientRects shadowRoot querySelector "
    "assignedSlot ownerDocument elements labels form type value id title length submit requestSubmit "
    "isConnected namespaceURI innerText focus children documentElement body defaultView createRange "
    "getAnimations scrollingElement elementFromPoint constructor"
)
CLOBBERS = _NAMES.split()
UNSEEN = {  # not in our reading; the tree counts some of it as present
    "opacity": "opacity:0",
    "faint": "opacity:.02",
    "size": "font-size:0",
    "display": "display:none",
    "visibility": "visibility:hidden",
    "left": "position:absolute;left:-9999px",
    "colour": "color:white",
    "no colour": "color:transparent",
    "clip": "clip-path:inset(100%)",
    "scale": "transform:scale(0)",
    "filter": "filter:opacity(0)",
    "skipped": "content-visibility:hidden",
    "indent": "text-indent:-9999px",
    "box": "width:0;height:0;overflow:hidden",
}
LAYOUTS = ("display:flex", "display:contents", "float:left", "display:inline-block", "position:relative;left:9px", "")
UNICODE = ("", "é", "𝐁", "שלום", "\u200b", "\ud83d\udc4d", "&#xfffe;", "&#8238;", "[3]", "［4］", "x" * 3000, "\n\n \t")
HOSTILE = (
    "Element.prototype.getBoundingClientRect = () => { throw 1 }",
    "for (const n of ['childNodes', 'nodeType']) Object.defineProperty(Node.prototype, n, {get() { throw 2 }})",
    "window.JSON = window.Node = window.Map = null; Array.prototype.map = Array.from = null",
    "Object.prototype.then = () => { throw 3 }; Symbol.iterator; String.prototype.trim = null",
    "alert('a'); confirm('b'); prompt('c')",
    "onbeforeunload = () => 'stay'",
    "window.getComputedStyle = () => { throw 4 }; HTMLElement.prototype.focus = () => { for (const x of [1]) throw x }",
    "setInterval(() => document.body && document.body.setAttribute('data-x', Math.random()), 5)",
    "addEventListener('click', (e) => e.target.remove(), true)",
    "addEventListener('focus', (e) => { e.target.blur(); e.target.disabled = true }, true)",
    "addEventListener('input', (e) => { e.target.closest('form')?.remove() }, true)",
    "addEventListener('mousemove', () => document.body.innerHTML = '', {once: true})",
    "addEventListener('click', () => window.close()); addEventListener('submit', (e) => { throw e })",
)
# What one reading has by design and the other has not.
SAME = {  # roles that the tree calls otherwise, or that are ours alone
    *(("button", "DisclosureTriangle"), ("button", "ColorWell"), ("textbox", "generic"), ("textbox", "Date")),
}
OURS = {"labelled", "in a widget", "closed root", "other origin", "option", "deep", "long", "details"}


@dataclass
class Drawn:
    """A page being drawn: each token and what lies around it."""

    rng: random.Random
    around: dict[str, frozenset[str]] = field(default_factory=dict)

    def token(self, why: frozenset[str]) -> str:
        token = f"t{len(self.around)}q"
        self.around[token] = why
        return token

    def words(self, why: frozenset[str]) -> str:
        odd = self.rng.choice(UNICODE) if self.rng.random() < 0.3 else ""
        return f"{self.token(why | ({'long'} if len(odd) > 100 else set()))} {odd} "

    def page(self) -> str:
        scripts = "".join(f"<script>{self.rng.choice(HOSTILE)}</script>" for _ in range(self.rng.randrange(3)))
        define = """<script>try { customElements.define("x-bad", class extends HTMLElement {
          get tagName() { throw 5 } get childNodes() { throw 6 } get shadowRoot() { throw 7 }
          getAttribute() { throw 8 } connectedCallback() { throw 9 } }) } catch {}</script>"""
        body = "".join(self.block(0, frozenset()) for _ in range(2))
        title = self.token(frozenset(["title"]))
        return f"<!doctype html><meta charset=utf-8><title>{title}</title>{define}{scripts}{body}"

    def some(self, depth: int, why: frozenset[str]) -> str:
        drawing = [self.rng.choice([self.block, self.widget]) for _ in range(1 if depth else 2)]
        return "".join(draw(depth + 1, why) for draw in drawing)

    def block(self, depth: int, why: frozenset[str]) -> str:
        if depth > 3:
            return f"<p>{self.words(why)}</p>"
        rng = self.rng
        kind = rng.randrange(14)
        if kind <= 2:
            tag = rng.choice(
                ["div", "p", "section", "ul", "span", "td", "h2", "x-bad", "center", "fieldset", "dialog open"]
            )
            return f'<{tag} style="{rng.choice(LAYOUTS)}">{self.words(why)}{self.some(depth, why)}</{tag.split()[0]}>'
        if kind <= 5:
            names = rng.sample(CLOBBERS, rng.randrange(1, 5))
            kinds = [rng.choice(["input", "select", "button", "img", "textarea", "output", "object"]) for _ in names]
            fields = "".join(
                f"<{tag} name={name} id={rng.choice(names)}>{'' if tag in ('input', 'img') else f'</{tag}>'}"
                for tag, name in zip(kinds, names, strict=True)
            )
            attributes = rng.choice(["", " tabindex=0", " onclick=1", " role=button", " name=body", " name=title"])
            more = frozenset({"in a widget"} if attributes in (" role=button", " tabindex=0", " onclick=1") else ())
            return f"<form{attributes}>{fields}{self.some(depth, why | more)}</form>"
        if kind <= 7:
            way = rng.choice(list(UNSEEN))
            return f'<div style="{UNSEEN[way]}">{self.words(why | {way})}{self.some(depth, why | {way})}</div>'
        if kind == 8:
            mode = rng.choice(["open", "open", "closed"])
            more = frozenset(["closed root"] if mode == "closed" else ())
            shadow = f"<template shadowrootmode={mode}>{self.some(depth, why | more)}<slot></slot></template>"
            return f"<div>{shadow}{self.words(why | more)}</div>"
        if kind == 9:
            sandbox = rng.random() < 0.3
            more = frozenset(["other origin"] if sandbox else ["frame"])
            src = html.escape(self.some(depth, why | more), quote=True)
            return f'<iframe {"sandbox" if sandbox else ""} width=900 height=300 srcdoc="{src}"></iframe>'
        if kind == 10:
            return f"<details><summary>{self.words(why)}</summary>{self.some(depth, why | {'details'})}</details>"
        if kind == 11:
            return f"<div aria-hidden=true>{self.some(depth, why | {'aria-hidden'})}</div>"
        if kind == 12:
            return "<div>" * 450 + self.words(why | {"deep"}) + "</div>" * 450
        return f'<img alt="{self.words(why | {"alt"})}" src="{rng.choice(["data:,", "/%ff.png", "http://[", "x:"])}">'

    def widget(self, depth: int, why: frozenset[str]) -> str:
        rng, inside, name = self.rng, why | {"in a widget"}, self.token(why)
        label = rng.choice([f'aria-label="{name}"', ""])
        words = self.words(inside | ({"labelled"} if label else set()))
        plain = self.words(why)
        url = rng.choice(["/%ff.png", "/a%20b.svg", "//[", "data:image/png;base64,x", "%zz"])
        kind = rng.choice(
            ["text", "search", "number", "date", "color", "range", "checkbox", "radio", "file", "password"]
        )
        return rng.choice(
            [
                f"<button {label}>{words}</button>",
                f"<a href=#>{plain}</a>",
                f"<button style=\"width:20px;height:20px;background:url('{url}')\"></button>",
                f'<input type={kind} aria-label="{name}" value="{rng.choice(["", "7", "[1]", "#ff0000"])}">',
                f"<label>{plain}<input type={rng.choice(['checkbox', 'radio', 'text'])}></label>",
                f"<select {label}><option>{self.token(why | {'option'})}<option>b</select>",
                f'<textarea aria-label="{name}">[2] v</textarea>',
                f'<div contenteditable aria-label="{name}">{plain}</div>',
                f"<div role={rng.choice(['button', 'tab', 'switch', 'menuitem', 'link'])} tabindex=0>{plain}</div>",
                f"<div onclick='this.remove()'>{plain}</div>",
                f"<span style='cursor:pointer'>{plain}</span>",
                f"<svg width=50 height=20 role=button><title>{self.token(why | {'svg'})}</title></svg>",
                f"<button {label}>{words}{self.block(depth + 2, inside)}</button>",
            ]
        )


Reading = tuple[set[str], dict[str, set[str]], str]
"""All tokens, the roles of those that name elements, and the whole text."""


def read_by_us(seen: Observation) -> Reading:
    roles: dict[str, set[str]] = {}
    for element in seen.elements:
        for token in TOKEN.findall(element.name):
            roles.setdefault(token, set()).add(element.role)
    said = " ".join([seen.text, *(f"{e.name} {e.value}" for e in seen.elements)])
    return set(TOKEN.findall(said)), roles, said


async def read_by_the_tree(session: BrowserSession) -> Reading:
    """By the accessibility tree, of all frames of the page's process."""
    frames = [(await session.tab.send("Page.getFrameTree"))["frameTree"]]
    tokens: set[str] = set()
    roles: dict[str, set[str]] = {}
    while frames:
        frame = frames.pop()
        frames += frame.get("childFrames", [])
        for node in (await session.tab.send("Accessibility.getFullAXTree", frameId=frame["frame"]["id"]))["nodes"]:
            if node.get("ignored") or node["role"]["value"] in ("RootWebArea", "MenuListPopup"):
                continue
            found = TOKEN.findall(f"{node.get('name', {}).get('value', '')} {node.get('value', {}).get('value', '')}")
            tokens.update(found)
            if any(p["name"] == "focusable" for p in node.get("properties", ())):
                for token in found:
                    roles.setdefault(token, set()).add(node["role"]["value"])
    return tokens, roles, ""


@dataclass
class Tally:
    """What came of all pages."""

    pages: int = 0
    acts: int = 0
    tokens: int = 0
    cut: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


def differences(drawn: Drawn, ours: Reading, theirs: Reading) -> list[tuple[str, str, frozenset[str]]]:
    """Each token that only one reading has, or under another role: what differs, the token, what explains it."""
    found = []
    for token, why in drawn.around.items():
        roles, tree_roles = ours[1].get(token, set()), theirs[1].get(token, set())
        if "title" not in why and (token in ours[0]) != (token in theirs[0]):
            side = "only the tree" if token in theirs[0] else "only ours"
            turned = {"turned by U+202E"} if token[::-1] in ours[2] else set()
            found.append((side, token, explaining(why, side) or frozenset(turned)))
        elif roles and tree_roles and not roles & tree_roles:
            same = {f"{one} is {other}" for one, other in SAME if one in roles and other in tree_roles}
            what = "role" if same else f"role {'|'.join(roles)} and {'|'.join(tree_roles)}"
            found.append((what, token, frozenset(same) or why & {*UNSEEN, "aria-hidden"}))
    return found


def explaining(why: frozenset[str], side: str) -> frozenset[str]:
    """Of what lies around a token, what makes only one reading have it."""
    unseen = why & set(UNSEEN)
    if side == "only the tree":
        return unseen or why & (OURS | {"svg"})
    return why & {"aria-hidden", "svg"}


async def one(session: BrowserSession, url: str, number: int, seed: int, tally: Tally, pages: dict[str, str]) -> None:
    rng = random.Random(f"{seed}-{number}")
    drawn = Drawn(rng)
    pages[f"/{number}"] = drawn.page()
    pages.pop(f"/{number - 100}", None)
    tally.pages += 1
    try:
        await session.act(Goto(url=f"{url}/{number}"))
        seen = await session.snapshot()
        found = differences(drawn, read_by_us(seen), await read_by_the_tree(session))
        if any(not why for _, _, why in found):  # a frame may have come between the two readings
            await session.settle()
            seen = await session.snapshot()
            found = differences(drawn, read_by_us(seen), await read_by_the_tree(session))
        for _ in range(2):
            tally.acts += 1
            mark, name = rng.randint(1, len(seen.elements) + 1), rng.choice(["clickPoint", "fill", "submit", "scroll"])
            given = {"fill": (mark, rng.choice(["x", "7", ""])), "scroll": (0, 0.5)}.get(name, (mark,))
            with suppress(Moved):  # by what it did
                await session.tab.call(name, *given)
        if number % 10 == 0:
            mark = rng.randint(1, len(seen.elements) + 1)
            actions: list[Action] = [Click(mark=mark), Write(mark=mark, text="x", enter=True), Clear(mark=mark)]
            await session.act(rng.choice([*actions, Submit(mark=mark), Scroll(), Wait(seconds=0.01), GoBack()]))
            await session.snapshot()
    except Exception as error:
        tally.cut.append(f"page {number}: {type(error).__name__}: {str(error)[:200]}")
        await session.reset(url)
        return
    tally.tokens += len(drawn.around)
    if re.search(r"\[\d+\]", re.sub(r" \[\d+\]", "", seen.text)) or len(re.findall(r"\[\d+\]", seen.text)) > len(
        seen.elements
    ):
        tally.unexplained.append(f"page {number}: a forged mark")
    for what, token, why in found:
        if why:
            tally.explained[f"{what}: {' + '.join(sorted(why))}"] += 1
        else:
            tally.unexplained.append(f"page {number}: {what} {token}")


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    held: dict[str, str]

    def do_GET(self) -> None:
        data = self.held.get(self.path.partition("?")[0], "<p>start").encode("utf-8", "replace")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        return


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A page was left while it was sent."""


async def fuzz(numbers: Sequence[int], seed: int, said: Callable[[Tally], None] = lambda _: None) -> Tally:
    """The pages of these numbers in one browser; `said` hears of the tally each hundred pages."""
    held: dict[str, str] = {}
    server = Server(("127.0.0.1", 0), type("Held", (Pages,), {"held": held}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    host, tally, left = f"127.0.0.1:{server.server_port}", Tally(), iter(numbers)

    async def work(browser: Browser) -> None:
        session = BrowserSession(browser)
        for played, number in enumerate(left):
            if played % 100 == 0:
                await session.reset(f"http://{host}/", [host])
            await one(session, f"http://{host}", number, seed, tally, held)
            if tally.pages % 100 == 0:
                said(tally)
        await session.close()

    async with Browser.launch() as browser:
        await asyncio.gather(*(work(browser) for _ in range(SIDE_BY_SIDE)))
    server.shutdown()
    server.server_close()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first page, to see one again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()

    def write(tally: Tally) -> None:
        result: dict[str, Any] = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": commit,
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
            "pages": tally.pages,
            "calls_of_act": tally.acts,
            "words": tally.tokens,
            "cut": tally.cut,
            "explained_differences": dict(tally.explained.most_common()),
            "unexplained_differences": tally.unexplained,
        }
        if args.out:
            args.out.write_text(json.dumps(result, indent=1) + "\n")
        sys.stdout.write(f"{tally.pages} pages: {len(tally.cut)} cut, {len(tally.unexplained)} unexplained\n")

    write(asyncio.run(fuzz(range(args.first, args.first + args.pages), args.seed, write)))


if __name__ == "__main__":
    main()
