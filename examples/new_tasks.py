"""New tasks on sites of your own from the tasks of another, as a library call.

Run it with `.venv/bin/python examples/new_tasks.py SEEDS DOMAIN MODEL BASE_URL`, SEEDS being WebVoyager's jsonl file;
without arguments two seeds and a stand-in for the model, on loopback.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from bestofq.envs.webvoyager.source import Entry, load_entries
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.faults import FaultServer
from bestofq.recipes.tasks.files import TaskFile
from bestofq.recipes.tasks.generation import GenerationSettings, generate_tasks
from bestofq.recipes.tasks.screening import Site

SITES = (Site(name="Cruises", url="https://cruises.example/"), Site(name="Trains", url="https://trains.example/"))
SEEDS = [
    Entry(web_name="Flights", id=str(number), ques=text, web="https://flights.example/")
    for number, text in enumerate(("Find the cheapest flight from Oslo to Rome.", "Compare two flights to Lima."))
]
WRITTEN = {
    "Cruises": ["Which cabin with a window costs least in May?", "Name the ports that the longest voyage calls at."],
    "Trains": ["Find the last night train to Turin on a Friday.", "Find the cheapest flight from Oslo to Rome in May."],
}


async def write(seeds: list[Entry], held_out: list[Entry], config: ChatConfig) -> None:
    settings = GenerationSettings(chat=config, count=2, fruitless=2)
    with tempfile.TemporaryDirectory() as folder, TaskFile(Path(folder) / "tasks.jsonl") as file:
        async with ChatModel(config) as model:
            tallies = await generate_tasks(
                model, file, sites=SITES, seeds=seeds, held_out=held_out, settings=settings, today=date.today()
            )
        for tally in tallies:
            print(f"{tally.site}: {tally.has} of {tally.wanted}, refused {dict(tally.refused)}")
        for entry in file.entries:
            print(f"{entry.id}: {entry.ques}")


def stand_in(request: Mapping[str, Any]) -> str:
    asked = request["messages"][1]["content"]
    return json.dumps({"tasks": next(tasks for site, tasks in WRITTEN.items() if f"new tasks for {site}" in asked)})


async def main() -> None:
    if len(sys.argv) == 5:
        held_out = load_entries(Path(sys.argv[1]))
        seeds = [entry for entry in held_out if entry.web_name == sys.argv[2]]
        await write(seeds, held_out, ChatConfig(model=sys.argv[3], base_url=sys.argv[4]))
        return
    async with FaultServer(stand_in) as server:
        await write(SEEDS, SEEDS, ChatConfig(model="stand-in", base_url=server.base_url))


asyncio.run(main())
