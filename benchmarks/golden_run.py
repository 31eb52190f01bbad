"""A golden run: what agents decide and what is learned, number by number. Two commits that differ in form only agree.

    python benchmarks/golden_run.py runs/golden/before                                # on one commit
    python benchmarks/golden_run.py runs/golden/after --against runs/golden/before    # on the other

60 shop tasks by five agents as text, 10 in Chromium, search trees for 5 bookings, a Q-function trained on what those
agents did. `facts` holds all of it but times and random ids; the weights are a hash. Numbers may differ by
0.01, all else must be equal. Some ten minutes on two cores.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from bestofq.store.store import Store

AGENTS = "prompting,random,picker,best-of-q,prior"
REVIEWS = ("--set", "model.embed.context=review", "--set", "model.embed.pooling=last")
ONE = ("--set", "suite.concurrency=1")  # which replies share a batch changes their log-probabilities in bfloat16
COMMANDS = (
    f"eval webshop --tasks 60 --runs 1 --agents {AGENTS} --run text --store OUT/shop",
    "eval webshop --tasks 10 --runs 1 --agents best-of-q --run chromium --set suite.env=browser --store OUT/shop",
    "train --run text --out OUT/q --store OUT/shop --set iql.steps=200 --set iql.network.hidden=[64]",
    "search booking --tasks 5 --store OUT/booking --set model.path=pocket-agentq --set model.dialect=composite",
)
ROUNDING = 0.01
TIMES = re.compile(r"second|started|time|_ms$|^costs$|^id$|commit|command|version", re.I)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder that is not there yet")
    parser.add_argument("--against", type=Path, help="the folder of an earlier golden run")
    given = parser.parse_args()
    out: Path = given.out
    (out / "facts").mkdir(parents=True)
    for command in COMMANDS:
        words = command.replace("OUT", str(out)).split()
        reviews = REVIEWS if words[0] in ("eval", "train") else ()
        subprocess.run([sys.executable, "-m", "bestofq.cli.main", *words, *ONE, *reviews], check=True)
    facts: dict[str, Any] = {"q": {file.stem: digest(file) for file in (out / "q").glob("*.safetensors")}}
    for name in ("shop", "booking"):
        with Store.open(out / name, read_only=True) as store:
            for run in (record.name for record in store.runs()):
                for agent in sorted({summary.agent for summary in store.summaries(run=run)}):
                    played = {e.task.id: timeless(e.model_dump()) for e in store.episodes(run=run, agent=agent)}
                    facts[f"{run} {agent}"] = dict(sorted(played.items()))
                if trees := [timeless(tree.model_dump()) for tree in store.trees.all(run)]:
                    facts[f"{run} trees"] = trees
    for name, fact in facts.items():
        said = json.dumps(fact, indent=1, default=str, ensure_ascii=False)
        (out / "facts" / f"{name}.json").write_text(re.sub(r"127\.0\.0\.1:\d+", "site", said), "utf-8")
    if given.against is not None:
        found = [
            one for name, fact in facts.items() for one in different(read(given.against, name), read(out, name), name)
        ]
        if found:
            raise SystemExit("\n".join(found[:20]))


def digest(weights: Path) -> str:
    """Of the tensors alone: a memory's file also names its episodes, whose ids are random."""
    tensors = sorted(load_file(weights).items())
    return hashlib.sha256(b"".join(tensor.tobytes() for _, tensor in tensors)).hexdigest()


def read(out: Path, name: str) -> Any:
    return json.loads((out / "facts" / f"{name}.json").read_text("utf-8"))


def different(before: Any, after: Any, where: str) -> list[str]:
    """The places where two facts differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return [one for name in before for one in different(before[name], after[name], f"{where}/{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for number, (a, b) in pairs for one in different(a, b, f"{where}/{number}")]
    close = isinstance(before, float) and isinstance(after, float) and abs(before - after) <= ROUNDING
    return [] if close or before == after else [f"{where}: {before!r:.80} and {after!r:.80}"]


def timeless(value: Any) -> Any:
    """Without times, random ids and what a commit is called."""
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if not TIMES.search(str(name))}
    return [timeless(one) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
