"""How many replies of a local instruct model can be read, held to their schema by a grammar and free.

    python benchmarks/json_replies.py --model path/to/model --out benchmarks/results/json_replies.json

Asked are the first pages of the shop's dev tasks, in the prompts of endpoints, for one candidate a reply and some
replies a page, drawn at temperature 1; no reply is repaired. What is counted so far is written after each page. The
stored result is of a GGUF file, which commit 548c8d26 still read.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.json_replies import json_of
from bestofq.core.decision import State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Observation
from bestofq.models.local import LocalModel
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.suite import synthetic_suite

DIALECT = JsonDialect()


async def states(count: int) -> list[State]:
    suite = synthetic_suite()
    env = TextEnv(suite)
    return [State(task=task, observation=await env.reset(task, seed=0)) for task in suite.tasks("dev", count)]


def counts(replies: list[tuple[Reply, Observation]]) -> dict[str, int]:
    """Replies that are JSON, and those among them that hold an action on their page."""
    found = {"replies": len(replies), "json": 0, "action": 0, "tokens": sum(reply.tokens for reply, _ in replies)}
    for reply, seen in replies:
        try:
            json_of(reply, dict)
            found["json"] += 1
            DIALECT.read(reply, seen, 1, None)
            found["action"] += 1
        except ReplyError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a transformers directory")
    parser.add_argument("--replies", type=int, default=200)
    parser.add_argument("--free", type=int, default=40, help="more of them, without a grammar")
    parser.add_argument("--draws", type=int, default=10, help="replies a page")
    parser.add_argument("--precision", default="float32", help="of the model")
    parser.add_argument("--tokens", type=int, default=800, help="of a reply, at most")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    model = LocalModel.load(given.model, precision=given.precision)
    record: dict[str, Any] = {
        "command": f"python benchmarks/json_replies.py --model {given.model.name} --replies {given.replies} "
        f"--free {given.free} --draws {given.draws} --tokens {given.tokens} --precision {given.precision}",
        "model": model.name,
        "revision": model.revision,
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "counts": {},
    }
    ways = (("held to the schema", True, given.replies), ("free", False, given.free))
    for name, held, count in ways:
        replies: list[tuple[Reply, Observation]] = []
        for state in asyncio.run(states(count // given.draws)):
            asked = user(DIALECT.user(state, 0, 0), system=DIALECT.system(state, 1, None))
            schema = DIALECT.schema(1, state.observation) if held else None
            request = Request(messages=asked, n=given.draws, schema=schema, max_tokens=given.tokens)
            (made,) = model.generate_batch([request])
            replies += [(reply, state.observation) for reply in made.replies]
            record["counts"][name] = counts(replies)
            given.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            sys.stdout.write(f"{name}: {record['counts'][name]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
