"""BrowserGym's side of benchmarks/browser.py; runs in BrowserGym's own environment, which pins an old Playwright.

Reads `reset SEED` and `click` from standard input and answers each with one JSON line of its seconds.
"""

import json
import sys
import time

import browsergym.miniwob  # noqa: F401  registers the environments
import gymnasium
from browsergym.core.action.highlevel import HighLevelActionSet
from playwright.sync_api import BrowserType


def first_checkbox(observation: dict) -> str:
    for node in observation["axtree_object"]["nodes"]:
        if node.get("role", {}).get("value") == "checkbox" and "browsergym_id" in node:
            return node["browsergym_id"]
    raise LookupError("the page shows no checkbox")


def main(executable: str) -> None:
    if executable:  # BrowserGym starts a second Chromium for its chat window and gives it no executable of its own
        launch = BrowserType.launch
        BrowserType.launch = lambda self, **options: launch(self, **{**options, "executable_path": executable})
    env = gymnasium.make(
        "browsergym/miniwob.click-checkboxes",
        headless=True,
        action_mapping=HighLevelActionSet(subsets=["bid"]).to_python_code,
    )
    observation: dict = {}
    for line in sys.stdin:
        words = line.split()
        begun = time.perf_counter()
        if words[0] == "reset":
            observation, _ = env.reset(seed=int(words[1]))
        else:
            observation, *_ = env.step(f"click({first_checkbox(observation)!r})")
        answer = {"seconds": time.perf_counter() - begun, "error": observation["last_action_error"]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    env.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
