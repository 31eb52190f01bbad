"""New tasks on sites of your own from the tasks of another: `bestofq tasks --write`, with a stand-in for the model.

Run it with `.venv/bin/python examples/new_tasks.py`; with a model, `--model NAME --base-url URL` are its own and
`--data` is WebVoyager's jsonl file.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bestofq.testing import FaultServer

SEEDS = ("Find the cheapest flight from Oslo to Rome.", "Compare two flights to Lima.")
SITES = ("Cruises=https://cruises.example/", "Trains=https://trains.example/")
WRITTEN = {
    "Cruises": ["Which cabin with a window costs least in May?", "Name the ports that the longest voyage calls at."],
    "Trains": ["Find the last night train to Turin on a Friday.", "Find the cheapest flight from Oslo to Rome in May."],
}


def stand_in(request: Mapping[str, Any]) -> str:
    asked = request["messages"][1]["content"]
    return json.dumps({"tasks": next(tasks for site, tasks in WRITTEN.items() if f"new tasks for {site}" in asked)})


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seeds, out = Path(folder) / "seeds.jsonl", Path(folder) / "tasks.jsonl"
        rows = [{"web_name": "Flights", "web": "https://flights.example/", "ques": text} for text in SEEDS]
        seeds.write_text("\n".join(json.dumps({**row, "id": f"Flights--{n}"}) for n, row in enumerate(rows)), "utf-8")
        async with FaultServer(stand_in) as server:
            done = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bestofq.cli.main", "tasks", "webvoyager", "--data", seeds, "--write", out),
                *("--seed-domain", "Flights", "--domain", SITES[0], "--domain", SITES[1], "--count", "2"),
                *("--model", "stand-in", "--base-url", server.base_url, "--set", "fruitless=2"),
            )
            await done.wait()
        for line in out.read_text("utf-8").splitlines():
            print(json.loads(line)["ques"])


asyncio.run(main())
