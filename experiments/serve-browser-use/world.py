"""The synthetic shop on loopback, and the pocket model as an endpoint that answers as browser-use wants it.

    .venv/bin/python experiments/serve-browser-use/world.py --port 8801

`POST /visit` with a split and a number opens the shop for a task; `GET /reward` says what a visit has earned;
`/v1/chat/completions` takes browser-use's message, puts it in the words the pocket model was trained on, and writes its
command as browser-use's JSON. A reply that is no command goes back as it is.
"""

import argparse
import asyncio
import itertools
import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from bestofq.agents.dialects.commands import COMMANDS
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core import actions as act
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request, user
from bestofq.core.observation import Element, Observation, Task
from bestofq.core.protocols import LanguageModel
from bestofq.interop.browser_use import elements_on, goal_in, page_in
from bestofq.interop.nouns import text_of
from bestofq_sites.local_site.server import SiteProcess, serve
from bestofq_sites.webshop.suite import WebShop, synthetic_suite

THANKS = "Thank you for shopping"
_STEPS = re.compile(r"<step>\n(?!Result)(.+)")
_LINE = re.compile(r"^\t*(?:\|[A-Z]+[^|\n]*\|)?\*?\[(\d+)\]<(\w+)([^\n]*)$")
_VALUE = re.compile(r" value=(.+?)(?= [\w-]+=| ?/?>|$)")


class Shown(NamedTuple):
    """A page in our words, and browser-use's number of each mark."""

    seen: Observation
    numbers: Sequence[int]


def shown(page: str) -> Shown:
    """The page as our shop writes it: a product on a line of its own, other controls beside each other."""
    text = page.partition("[Start of page]\n")[2].partition("\n[End of page]")[0]
    named = {one.mark: one.name for one in elements_on(text)}
    lines: list[str] = []
    elements: list[Element] = []
    numbers: list[int] = []
    joins, skipped = False, set[str]()  # the next control joins the last line; words that a control has already
    for line in text.split("\n"):
        if not (found := _LINE.match(line)):
            if line.strip() and line.strip() not in skipped:
                lines.append(line.strip())
                joins = line.strip().endswith(":")
            continue
        number, tag, attributes = int(found.group(1)), found.group(2), found.group(3)
        name = named.get(number, "")
        skipped = {name}
        numbers.append(number)
        mark = len(numbers)
        checked = "checked=true" in attributes
        value = next(iter(_VALUE.findall(attributes)), "") if tag == "input" else None
        role = {"input": "searchbox", "a": "radio" if "role=radio" in attributes else "link"}.get(tag, tag)
        elements.append(Element(mark=mark, role=role, name=name, value=value, states=("checked",) if checked else ()))
        piece = name + ("" if value is None else f': "{value}"') + (" (checked)" if checked else "") + f" [{mark}]"
        joins = joins and not name.startswith("$")
        lines[-1:] = [f"{lines[-1]} {piece}"] if joins and lines else [*lines[-1:], piece]
        joins = not name.startswith("$")
    return Shown(Observation(url="", title="WebShop", text="\n".join(lines), elements=tuple(elements)), numbers)


def state_of(message: str, page: Observation) -> State:
    """What browser-use tells of the task and of the steps before."""
    done = (Candidate(action=act.Other(text=line), label=line) for line in _STEPS.findall(message))
    decisions = tuple(Decision(candidates=(one,), scores=(0.0,), chosen=0) for one in done)
    goal = goal_in(message)
    return State(task=Task(id="", suite="webshop", goal=goal, start_url="/"), decisions=decisions, observation=page)


def actions_of(action: act.Action, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """browser-use's actions for one of ours."""
    match action:
        case act.Click(mark=int(mark)):
            return [{"click": {"index": numbers[mark - 1]}}]
        case act.Write(mark=int(mark), text=text, enter=enter):
            typed = [{"input": {"index": numbers[mark - 1], "text": text, "clear": True}}]
            return [*typed, *([{"send_keys": {"keys": "Enter"}}] if enter else [])]
        case act.Submit():
            return [{"send_keys": {"keys": "Enter"}}]
        case act.GoBack():
            return [{"go_back": {}}]
        case act.Scroll(direction=direction):
            return [{"scroll": {"down": direction == "down", "pages": 1.0}}]
        case act.Answer(text=text):
            return [{"done": {"text": text, "success": True, "files_to_display": []}}]
    return [{"wait": {"seconds": 1}}]


class Adapter:
    """The endpoint. `seed` and the number of a request make its draw."""

    def __init__(self, model: LanguageModel, seed: int) -> None:
        self.model, self._seeds = model, itertools.count(seed * 1_000_000)

    async def chat(self, request: HttpRequest) -> JSONResponse:
        body = await request.json()
        users = [text_of(one["content"]) for one in body["messages"] if one["role"] == "user"]
        message = next(one for one in reversed(users) if page_in(one))
        page = shown(page_in(message))
        ending = "max_steps" in users[-1] or THANKS in page.seen.text
        tokens = (0, 0)
        if ending:
            said = "finished"
            actions = actions_of(act.Answer(text=said), ())
        else:
            warm = float(body.get("temperature") or 0.0)
            generation = await self.model.generate(
                Request(
                    messages=user(COMMANDS.prompt(state_of(message, page.seen))),
                    n=1,
                    greedy=warm == 0,
                    temperature=warm or 1.0,
                    max_tokens=40,
                    seed=next(self._seeds),
                )
            )
            [reply] = generation.replies
            tokens = (generation.usage.tokens_in, reply.tokens)
            try:
                candidate = COMMANDS.parse(reply.text, page.seen)
            except ReplyError:
                return JSONResponse(completion(reply.text, tokens))
            said, actions = candidate.label, actions_of(candidate.action, page.numbers)
        output = {"thinking": "", "evaluation_previous_goal": "", "memory": "", "next_goal": said, "action": actions}
        return JSONResponse(completion(json.dumps(output), tokens))


def completion(text: str, tokens: tuple[int, int]) -> Mapping[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-pocket",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "pocket",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


class Visits:
    """What a driver asks: a visit of a task, and what it has earned."""

    def __init__(self, suite: WebShop, site: SiteProcess[Any, Any]) -> None:
        self.suite, self.site = suite, site

    async def visit(self, request: HttpRequest) -> JSONResponse:
        wanted = await request.json()
        task = self.suite.tasks(wanted["split"], wanted["number"] + 1)[wanted["number"]]
        return JSONResponse({"root": self.site.open_visit(task), "goal": task.goal, "task": task.id})

    async def reward(self, request: HttpRequest) -> JSONResponse:
        task, visit = self.site.visits.pop(request.query_params["root"])
        return JSONResponse({"reward": self.suite.reward(task, visit), "bought": self.suite.is_over(visit)})


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8801)
    parser.add_argument("--seed", type=int, default=0, help="of the model's draws")
    args = parser.parse_args()
    suite, adapter = synthetic_suite(), Adapter(Models(BestOfQSettings()).local, args.seed)
    async with serve(suite) as site:
        visits = Visits(suite, site)
        routes = [
            Route("/v1/chat/completions", adapter.chat, methods=["POST"]),
            Route("/visit", visits.visit, methods=["POST"]),
            Route("/reward", visits.reward),
        ]
        with socket.create_server(("127.0.0.1", args.port)) as listener:
            config = uvicorn.Config(Starlette(routes=routes), log_level="error", access_log=False)
            await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
