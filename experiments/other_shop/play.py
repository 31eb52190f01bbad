"""A plain agent in the shop: it shows a small model the page, and clicks what that answers.

`python -m experiments.other_shop.play ARM SPLIT ADDRESS TASKS PASSES TABLE.csv` adds a row for each task that the arm
has not played yet."""

import asyncio
import csv
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from openai import AsyncOpenAI
from playwright.async_api import Browser, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

from bestofq.browser.chromium import find_chromium
from experiments.other_shop.shop import Errand, GarmentShop, tasks
from experiments.outcomes import COLUMNS

MODEL = "qwen2.5-coder-0.5b-instruct"
SYSTEM = """You buy things in a web shop by its numbered controls. Open the product, choose the size, then buy.
Answer as JSON: {"action": "click NUMBER"}."""
ACTION = {"type": "string", "pattern": "^click [0-9]{1,2}$"}
SCHEMA = {"type": "object", "properties": {"action": ACTION}, "required": ["action"]}
FORM: Any = {"type": "json_schema", "json_schema": {"name": "action", "schema": SCHEMA}}


async def play(page: Page, task: Errand, client: AsyncOpenAI, orders: list[tuple[str, str]]) -> int:
    """The number of steps until an order was placed, or 6."""
    goal = f"Goal: Buy the {task.product.name} in size {task.size}."
    steps = 0
    while steps < 6 and not orders:
        steps += 1
        await page.wait_for_selector("body[data-ready=yes]")
        controls = await page.locator("button").all()
        names = [await one.inner_text() for one in controls]
        lines = [f"Page: {await page.title()}", *await page.locator("p").all_inner_texts()]
        lines += [f"click {number}: {name}" for number, name in enumerate(names, 1)]
        words = "\n".join([*lines, goal, "Next action:"])
        reply = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": words}],
            temperature=0,
            max_tokens=40,
            response_format=FORM,
        )
        with suppress(ValueError, LookupError, PlaywrightError):  # as plain agents do: the next page tells
            action = json.loads(reply.choices[0].message.content or "")["action"]
            await controls[int(action.removeprefix("click ")) - 1].click(timeout=2000)
        await page.wait_for_timeout(150)
    return steps


async def session(browser: Browser, shop: GarmentShop, task: Errand, serve: str, name: str) -> tuple[str, int]:
    """How the task ended, and after how many steps."""
    context = await browser.new_context()
    await context.add_cookies([{"name": "visitor", "value": name, "url": shop.url}])
    orders = shop.orders[f"visitor={name}"]
    async with AsyncOpenAI(base_url=f"{serve}/sessions/{name}/v1", api_key="none", timeout=900) as client:
        page = await context.new_page()
        await page.goto(f"{shop.url}/?kind={task.product.kind}&part={task.product.split}")
        steps = await play(page, task, client, orders)
    success = orders == [(task.product.id, task.size)]
    await context.request.post(f"{serve}/sessions/{name}/outcome", data={"success": success}, fail_on_status_code=True)
    await context.close()
    return "success" if success else "failure", steps


async def main(arm: str, split: str, serve: str, table: TextIO, waiting: list[tuple[Errand, int]]) -> None:
    shop = GarmentShop()

    async def worker(browser: Browser) -> None:
        while waiting:
            task, number = waiting.pop()
            ended = await session(browser, shop, task, serve, f"{arm}-{task.id}-{number}")
            run = f"{arm}-{split}"
            csv.writer(table, lineterminator="\n").writerow([run, run, arm, split, task.id, number, *ended])
            table.flush()

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())
        await asyncio.gather(worker(browser), worker(browser))
        await browser.close()


arm, split, serve, many, passes, path = sys.argv[1:]
with Path(path).open("a+", newline="") as file:
    file.seek(0)
    played = {(row["agent"], row["task"], row["repeat"]) for row in csv.DictReader(file)}
    if not file.tell():
        file.write(",".join(COLUMNS) + "\n")
    wanted = [(task, number) for number in range(int(passes)) for task in tasks(split)[: int(many)]]
    left = [(task, number) for task, number in wanted if (arm, task.id, str(number)) not in played]
    asyncio.run(main(arm, split, serve, file, left[::-1]))
