"""Episodes a minute that `bestofq import` takes, by kind of log, as a process of its own with all that it does.

    python benchmarks/importing.py --out benchmarks/results/importing.json

Each log has `--episodes` episodes of five steps, each step on a page of its own of about `--characters`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

STEPS = 5


def page(episode: int, step: int, characters: int) -> str:
    lines = (
        f"[{mark}]<a />\n\tproduct {mark} of shelf {episode} on floor {step}" for mark in range(1, characters // 45)
    )
    return "\n".join(lines)


def jsonl(folder: Path, episodes: int, characters: int) -> Path:
    """Our own JSON lines, three candidates a step."""
    with (folder / "log.jsonl").open("w") as file:
        for number in range(episodes):
            steps = [
                {"observation": page(number, step, characters), "candidates": ["click [1]", "click [2]", "back"]}
                for step in range(STEPS)
            ]
            file.write(json.dumps({"goal": f"task {number}", "steps": steps, "outcome": number % 2 == 0}) + "\n")
    return folder / "log.jsonl"


def chat(folder: Path, episodes: int, characters: int) -> Path:
    """Chats with tool calls."""
    with (folder / "chat.jsonl").open("w") as file:
        for number in range(episodes):
            talk: list[Mapping[str, Any]] = [{"role": "user", "content": f"task {number}"}]
            for step in range(STEPS):
                call = {"id": f"c{step}", "function": {"name": "click", "arguments": json.dumps({"index": step + 1})}}
                talk.append({"role": "assistant", "content": "so", "tool_calls": [call]})
                talk.append({"role": "tool", "tool_call_id": f"c{step}", "content": page(number, step, characters)})
            file.write(json.dumps({"messages": talk}) + "\n")
    return folder / "chat.jsonl"


def browser_use(folder: Path, episodes: int, characters: int) -> Path:
    """Saved histories, a file each."""
    there = folder / "histories"
    there.mkdir()
    for number in range(episodes):
        steps = [
            {
                "model_output": {"memory": "seen", "next_goal": "on", "action": [{"click": {"index": 1}}]},
                "result": [{"is_done": step == STEPS - 1, "judgement": {"verdict": number % 2 == 0}}],
                "state": {"url": f"http://shop/{step}", "title": "Shop", "tabs": [], "interacted_element": [None]},
                "state_message": f"<user_request>task {number}</user_request><browser_state>"
                f"{page(number, step, characters)}</browser_state>",
            }
            for step in range(STEPS)
        ]
        (there / f"{number}.json").write_text(json.dumps({"history": steps}))
    return there


LOGS: Mapping[str, Callable[[Path, int, int], Path]] = {"jsonl": jsonl, "chat": chat, "browser-use": browser_use}


def measure(kind: str, episodes: int, characters: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        log = LOGS[kind](Path(folder), episodes, characters)
        command = [sys.executable, "-m", "bestofq.cli.main", "import", kind, str(log), "--store", f"{folder}/store"]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "episodes_a_minute": 60 * episodes / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=2_000, help="of a page")
    parser.add_argument("--kinds", default=",".join(LOGS))
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    found = {kind: measure(kind, args.episodes, args.characters) for kind in args.kinds.split(",")}
    for kind, one in found.items():
        sys.stdout.write(f"{kind:14}{one['seconds']:8.1f} s{one['episodes_a_minute']:10.0f} episodes a minute\n")
    if args.out:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}
        asked = {"episodes": args.episodes, "steps": STEPS, "characters": args.characters}
        result = {"command": " ".join(["python", *sys.argv]), "commit": head.stdout.strip(), "machine": machine}
        args.out.write_text(json.dumps({**result, **asked, "kinds": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
