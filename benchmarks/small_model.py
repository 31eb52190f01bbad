"""What a small model behind an endpoint offers on MiniWoB++: steps with a valid action, distinct candidates, tokens.

    llama-server -m qwen2.5-coder-0.5b-instruct-q4_k_m.gguf -t 1 -np 1 -c 4096 --port 8080
    python benchmarks/small_model.py --base-url http://127.0.0.1:8080/v1 --out benchmarks/results/small_model.json

Every fourth training task by name is played once, a few steps each, by a random one of the candidates. Tokens are the
server's own count. With --store nothing is played: the steps of the episodes in that store count.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, get_args

from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.prompting import CandidateSource
from bestofq.agents.proposers import ChatProposer
from bestofq.core.decision import Decision, State
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.rollouts.console import console
from bestofq.store.store import Store

N = 3
STRIDE = 4
MAX_TOKENS = 600  # of a reply: three candidates with thoughts need 400, and a reply without an end takes minutes


async def play(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each step."""
    names = MiniWob(MiniWobSettings(families="seen")).names("train")[::STRIDE][: options.tasks]
    suite = MiniWob(MiniWobSettings(only=",".join(names), per_task=1))
    dialect = JsonDialect(thoughts=options.thoughts)
    config = ChatConfig(model=options.model, base_url=options.base_url, max_tokens=MAX_TOKENS)
    rng, rows = random.Random(options.seed), []
    async with suite.open() as make_env, ChatModel(config) as model:
        proposer = ChatProposer(model, dialect, screenshots=0, candidates=options.candidates)
        env = await make_env()
        end = time.monotonic() + 60 * options.minutes
        for task in await suite.tasks("train"):
            state = State(task=task, observation=await env.reset(task, seed=task.seed), seed=options.seed)
            for step in range(options.steps):
                if time.monotonic() > end:
                    return rows
                begun = time.perf_counter()
                proposal = await proposer.propose(state, N)
                used = proposal.usage[0]
                rows.append(
                    {
                        "task": task.id,
                        "step": step,
                        "valid": not proposal.failed,
                        "candidates": [candidate.label for candidate in proposal.candidates],
                        "calls": used.calls,
                        "tokens_in": used.tokens_in,
                        "tokens_out": used.tokens_out,
                        "seconds": round(time.perf_counter() - begun, 2),
                    }
                )
                console.print_json(data=rows[-1], indent=None)
                chosen = rng.randrange(len(proposal.candidates))
                decision = Decision(
                    candidates=proposal.candidates, scores=(0.0,) * len(proposal.candidates), chosen=chosen
                )
                result = await env.step(proposal.candidates[chosen].action)
                if result.terminated:
                    break
                decisions = (*state.decisions, decision)
                state = state.model_copy(update={"decisions": decisions, "observation": result.observation})
        await env.close()
    return rows


def read_steps(place: str) -> list[dict[str, Any]]:
    """Return the same rows of finished episodes."""
    rows = []
    with Store.open(place, read_only=True) as store:
        for episode in store.episodes():
            for step in episode.steps:
                offered, used = step.decision.candidates, step.decision.usage[0]
                row = {"task": episode.task.id, "step": step.index, "candidates": [one.label for one in offered]}
                row["valid"] = not (offered[0].thought or "").startswith("no valid reply")
                row["seconds"] = round(used.seconds, 2)
                rows.append({**row, **used.model_dump(include={"calls", "tokens_in", "tokens_out"})})
    return rows


def summarize(rows: list[dict[str, Any]]) -> dict[str, float]:
    valid = [row for row in rows if row["valid"]]
    calls = sum(row["calls"] for row in rows)
    return {
        "steps": len(rows),
        "kinds of tasks": len({row["task"].partition("/")[0] for row in rows}),
        "steps with a valid action": len(valid) / len(rows),
        "distinct candidates a step": statistics.mean(len(row["candidates"]) * row["valid"] for row in rows),
        "prompt tokens a call": sum(row["tokens_in"] for row in rows) / calls,
        "prompt tokens a call, most of a step": max(row["tokens_in"] / row["calls"] for row in rows),
        "tokens out a step": sum(row["tokens_out"] for row in rows) / len(rows),
        "calls a step": calls / len(rows),
        "seconds a step, median": statistics.median(row["seconds"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--base-url")
    place.add_argument("--store")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--candidates", choices=get_args(CandidateSource), default="auto")
    parser.add_argument("--thoughts", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--steps", type=int, default=5, help="of a task, at most")
    parser.add_argument("--minutes", type=float, default=600.0, help="after which no step begins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = read_steps(options.store) if options.store else asyncio.run(play(options))
    results = summarize(rows)
    console.print_json(data=results)
    if options.out:
        named = {name: value for name, value in vars(options).items() if name not in ("out", "base_url")}
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        machine = f"{platform.machine()}, {os.cpu_count()} cores, other work beside it"
        found = {"results": results, "options": named, "commit": commit, "machine": machine, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
