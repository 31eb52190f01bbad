"""A Playwright loop of your own, whose action a learned Q chooses: no agent and no browser of ours.

Run it with `.venv/bin/python examples/playwright_loop.py`; it takes some ten seconds. The site is on loopback.
"""

import asyncio
import shutil

from playwright.async_api import async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

import bestofq as bq
from bestofq.testing import serve_app

GOAL = "find me breathable rain jacket for less than 70 dollars"
JACKET = "$45.99 Jasper breathable rain jacket"


async def shop(request: Request) -> HTMLResponse:
    if request.url.path == "/":
        return HTMLResponse(f"<title>Results</title><a href=/coat>$45.99 wool coat</a> <a href=/jacket>{JACKET}</a>")
    return HTMLResponse(f"<title>Item</title><button>Buy Now: {JACKET}</button>")


async def propose(page: bq.Observation) -> list[bq.Action]:
    """Your model's candidates; here each element of the page."""
    return [bq.Click(mark=element.mark) for element in page.elements]


async def main() -> None:
    ranker, history = bq.Ranker.load(), list[str]()
    async with async_playwright() as playwright, serve_app(Starlette(routes=[Route("/{path:path}", shop)])) as url:
        chromium = await playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"))
        page = await chromium.new_page()
        await page.goto(f"{url}/")
        for _ in range(2):
            seen = await bq.observe(page)
            candidates = await propose(seen)
            index, scores = await ranker.rank(GOAL, seen, history, candidates)
            for element, score in zip(seen.elements, scores, strict=True):
                print(f"{score:6.3f}  {element.role} {element.name}")
            taken = seen.elements[index]
            history.append(f"click {taken.role} {taken.name}")
            print(f"on {seen.title}: {history[-1]}. {await bq.act(page, candidates[index]) or ''}")
        await chromium.close()


if __name__ == "__main__":
    asyncio.run(main())
