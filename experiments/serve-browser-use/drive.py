"""browser-use shops: an episode a task, each in a session of `bestofq serve`, its outcome the shop's own reward.

    .venv-browser-use/bin/python experiments/serve-browser-use/drive.py --serve http://127.0.0.1:8770 --world \
        http://127.0.0.1:8801 --split train --tasks 200 --name record --out runs/serve-browser-use/record.jsonl

It runs in browser-use's own environment (`pip install 'browser-use>=0.13'`) and imports nothing of bestofq. Run again
it goes on after the last task in `--out`. A success is a reward of 1: all that the goal asks for was bought.
"""

import argparse
import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

os.environ |= {
    "ANONYMIZED_TELEMETRY": "false",
    "BROWSER_USE_LOGGING_LEVEL": "result",
    "BROWSER_USE_VERSION_CHECK": "false",
}
os.environ |= {"BROWSER_USE_CLOUD_SYNC": "false"}

import httpx
from browser_use import Agent, BrowserProfile, BrowserSession, ChatOpenAI

QUICK: dict[str, Any] = {
    "minimum_wait_page_load_time": 0.0,
    "wait_for_network_idle_page_load_time": 0.0,
    "wait_between_actions": 0.0,
}  # the shop's pages are there at once


def browser() -> BrowserSession:
    chromium = os.environ.get("BESTOFQ_CHROMIUM") or shutil.which("chromium-headless-shell")
    profile = BrowserProfile(
        headless=True, executable_path=chromium, keep_alive=True, enable_default_extensions=False,
        chromium_sandbox=False, **QUICK,
    )  # fmt: skip
    return BrowserSession(browser_profile=profile)


async def shop(
    args: argparse.Namespace, session: BrowserSession, client: httpx.AsyncClient, number: int
) -> dict[str, Any]:
    name, began = f"{args.name}-{number}", time.monotonic()
    wanted = {"split": args.split, "number": number}
    visit = (await client.post(f"{args.world}/visit", json=wanted)).raise_for_status().json()
    base = f"{args.serve}/sessions/{name}/v1"
    agent = Agent(
        task=visit["goal"], browser_session=session, use_vision=False, use_judge=False, flash_mode=args.flash,
        llm=ChatOpenAI(model="pocket", base_url=base, api_key="none", temperature=args.temperature),
        llm_timeout=args.patience, step_timeout=2 * args.patience,
        initial_actions=[{"navigate": {"url": visit["root"] + "/", "new_tab": False}}],
    )  # fmt: skip
    history = await agent.run(max_steps=args.steps)
    earned = (await client.get(f"{args.world}/reward", params={"root": visit["root"]})).raise_for_status().json()
    outcome = {"success": earned["reward"] == 1.0, "reward": earned["reward"], "judge": "shop"}
    posted = await client.post(f"{args.serve}/sessions/{name}/outcome", json=outcome)
    seconds = round(time.monotonic() - began, 2)
    steps, errors = history.number_of_steps(), [one for one in history.errors() if one]
    return {"number": number, "task": visit["task"], **earned, "steps": steps, "errors": len(errors),
            "recorded": posted.status_code == 200, "seconds": seconds}  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", required=True, help="bestofq serve, without /v1")
    parser.add_argument("--world", required=True, help="world.py")
    parser.add_argument("--split", default="train", choices=("train", "dev", "test"))
    parser.add_argument("--first", type=int, default=0, help="number of the first task")
    parser.add_argument("--tasks", type=int, default=200, help="how many from there on")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--patience", type=int, default=75, help="seconds for a reply")
    parser.add_argument("--flash", action="store_true", help="browser-use's mode without thoughts, for slow models")
    parser.add_argument("--name", default="shop")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = {json.loads(line)["number"] for line in args.out.open()} if args.out.exists() else set()
    session = browser()
    await session.start()
    async with httpx.AsyncClient(timeout=60) as client:
        with args.out.open("a") as out:
            for number in sorted({*range(args.first, args.first + args.tasks)} - done):
                out.write(json.dumps(await shop(args, session, client, number)) + "\n")
                out.flush()
    await session.kill()


if __name__ == "__main__":
    asyncio.run(main())
