"""A browser-use agent whose next actions a learned Q chooses among three replies of its model, without a proxy.

Run it with `python examples/browser_use_ranker.py` where browser-use (0.13 or later) is installed, too; it takes some
ten seconds. Site and model are stand-ins on loopback. The class `BestOf` is all that an agent of yours needs.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

import bestofq as bq
from bestofq.testing import FaultServer, serve_app

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
try:
    from browser_use import Agent, BrowserProfile, BrowserSession, ChatOpenAI
except ImportError:
    sys.exit(print("skipped: this example needs browser-use, `pip install 'browser-use>=0.13'`"))

GOAL = "find me breathable rain jacket for less than 70 dollars"
JACKET = "$45.99 Jasper breathable rain jacket"
ELEMENT = re.compile(r"\[(\d+)\]<(\w+)[^\n]*\n\t+([^\n]+)")
ROLES = {"a": "link"}


class BestOf(ChatOpenAI):  # type: ignore[misc]
    """Asks `n` times at once, and answers with the reply whose actions have the highest Q."""

    ranker: bq.Ranker
    n = 3
    history: list[str]

    async def ainvoke(self, messages: list[Any], output_format: Any = None, **more: Any) -> Any:
        ask = super().ainvoke
        replies = await asyncio.gather(*(ask(messages, output_format, **more) for _ in range(self.n)))
        page = next((one.text for one in reversed(messages) if "<browser_state>" in one.text), "")
        words = {int(mark): f"{ROLES.get(tag, tag)} {name}" for mark, tag, name in ELEMENT.findall(page)}
        candidates = [said(one.completion.action, words) for one in replies]
        index, scores = await self.ranker.rank(GOAL, page, self.history, candidates)
        for candidate, score in zip(candidates, scores, strict=True):
            print(f"{score:6.3f}  {candidate}")
        self.history.append(candidates[index])
        return replies[index]


def said(actions: list[Any], words: Mapping[int, str]) -> str:
    """The actions of a reply in words, as Q was taught them."""
    found = []
    for one in actions:
        for name, values in one.model_dump(exclude_unset=True).items():
            found.append(f"{name} {words.get(values.get('index'), json.dumps(values))}")
    return "; ".join(found)


async def shop(request: Request) -> HTMLResponse:
    if request.url.path == "/":
        return HTMLResponse(f"<title>Results</title><a href=/coat>$45.99 wool coat</a> <a href=/jacket>{JACKET}</a>")
    return HTMLResponse(f"<title>Item</title><p>{request.url.path[1:]}: it is yours</p>")


class Model:
    """A stand-in: it clicks one link after the other, and is done where there is none."""

    asked = 0

    def __call__(self, request: Mapping[str, Any]) -> str:
        self.asked += 1
        text = json.dumps(request["messages"][1:])
        links = re.findall(r"\[(\d+)\]<a", text)
        done = {"done": {"text": "bought", "success": True, "files_to_display": []}}
        action = {"click": {"index": int(links[self.asked % len(links)])}} if links else done
        empty = dict.fromkeys(("thinking", "evaluation_previous_goal", "memory", "next_goal"), "")
        return json.dumps({**empty, "action": [action]})


async def main() -> None:
    chromium = os.environ.get("BESTOFQ_CHROMIUM") or shutil.which("chromium-headless-shell")
    profile = BrowserProfile(headless=True, executable_path=chromium, enable_default_extensions=False)
    async with FaultServer(Model()) as server, serve_app(Starlette(routes=[Route("/{path:path}", shop)])) as url:
        llm = BestOf(model="stand-in", base_url=server.base_url, api_key="none")
        llm.ranker, llm.history = bq.Ranker.load(), []
        start = [{"navigate": {"url": f"{url}/", "new_tab": False}}]
        session = BrowserSession(browser_profile=profile)
        agent = Agent(GOAL, llm, browser_session=session, use_vision=False, use_judge=False, initial_actions=start)
        history = await agent.run(max_steps=4)
        print(f"{history.urls()[-1]}: {history.final_result()}")


if __name__ == "__main__":
    asyncio.run(main())
