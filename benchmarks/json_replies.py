"""How many replies of a local instruct model can be read, held to their schema by a grammar and free.

    python benchmarks/json_replies.py --model path/to/model.gguf --out benchmarks/results/json_replies.json

Asked are the first pages of the shop's dev tasks, in the prompts of endpoints, for one candidate each; no reply is
repaired.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.json_replies import json_of
from bestofq.core.decision import State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Observation
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import synthetic_suite
from bestofq.models.local import LocalModel
from bestofq.rollouts.progress import bar

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
            json_of(reply)
            found["json"] += 1
            DIALECT.read(reply, seen, 1, None)
            found["action"] += 1
        except ReplyError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a transformers directory or a GGUF file")
    parser.add_argument("--replies", type=int, default=200)
    parser.add_argument("--free", type=int, default=40, help="of them asked again without a grammar")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=800, help="of a reply, at most")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    model = LocalModel.load(given.model)
    asked = asyncio.run(states(given.replies))
    found = {}
    ways = (("held to the schema", DIALECT.schema(1), asked), ("free", None, asked[: given.free]))
    for name, schema, states_asked in ways:
        replies: list[tuple[Reply, Observation]] = []
        with bar(Console(stderr=True)) as shown:
            for start in shown.track(range(0, len(states_asked), given.batch), description=name):
                some = states_asked[start : start + given.batch]
                requests = [
                    Request(
                        messages=user(DIALECT.user(s, 0, 0), system=DIALECT.system(s, 1, None)),
                        schema=schema,
                        max_tokens=given.tokens,
                    )
                    for s in some
                ]
                made = model.generate_batch(requests)
                replies += [(one.replies[0], s.observation) for one, s in zip(made, some, strict=True)]
        found[name] = counts(replies)
        sys.stdout.write(f"{name}: {found[name]}\n")
    record = {
        "command": f"python benchmarks/json_replies.py --model {given.model.name} --replies {given.replies} "
        f"--free {given.free} --tokens {given.tokens}",
        "model": model.name,
        "revision": model.revision,
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "counts": found,
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
