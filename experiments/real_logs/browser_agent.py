"""A reader of browser-agent: public runs of one agent on the 812 tasks of WebArena, as BrowserGym records them.

    git clone https://github.com/MadeAgents/browser-agent
    bestofq import experiments.real_logs.browser_agent:read browser-agent/trajectories/webarena/results \\
        --store runs/real-logs-browser-agent

After the last step BrowserGym asks the agent once more; what it says then does nothing and is no step.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bestofq.core.actions import Action, Other
from bestofq.core.decision import Episode, Verdict
from bestofq.interop.actions import call_of, candidate_of, elements_in, spoken
from bestofq.interop.files import Malformed, json_files
from bestofq.interop.nouns import Turn, decision_of, episode_of, json_in, page_of, verdict_by
from experiments.real_logs.agent_evals import WEBARENA, task_at

SUITE = "browser-agent"
CALLS = {"click": ("bid", "button"), "fill": ("bid", "value"), "press": ("bid", "key_comb"), "goto": ("url",)}
CALLS |= {"select_option": ("bid", "value"), "keyboard_press": ("key",), "go_back": ()}
"""Of BrowserGym, with the names of their arguments."""


def read(path: Path) -> Iterator[Episode | Malformed]:
    """The runs below a folder: a folder a task, with a summary and a file a step."""
    yield from json_files(path, episode, "summary_info.json")


def episode(record: Any, file: Path) -> Episode:
    """ValueError, LookupError or TypeError if it is none."""
    files = sorted(file.parent.glob("steps_info_*.json"), key=lambda one: int(one.stem.rpartition("_")[2]))
    steps = [json_in(one.read_bytes()) for one in files]
    played = [step for step in steps if step["action"] and not (step["terminated"] or step["truncated"])]
    turns = [_turn(step, step is played[-1]) for step in played]
    task = task_at(turns[0][0].url, file.parent.name.removeprefix("task_"))
    found = episode_of(WEBARENA, played[0]["obs"]["goal"], turns, task=task, verdict=_verdict(record))
    return found.model_copy(update={"agent": SUITE, "id": f"{SUITE} {task}"})


def _verdict(said: Any) -> Verdict:
    """A run that an error ended is none of the agent's."""
    if said["err_msg"]:
        return Verdict(reward=0.0, outcome="infra_error", reason=said["err_msg"])
    return verdict_by("", success=said["cum_reward"] == 1.0, reward=said["cum_reward"])


def _turn(step: Any, last: bool) -> Turn:
    seen, tab = step["obs"], step["obs"]["active_page_index"][0]
    text, url, title = seen["axtree_txt"], seen["open_pages_urls"][tab], seen["open_pages_titles"][tab]
    page = page_of(text, elements_in(text), url=url, title=title)
    thought, _, said = re.sub(r"</?think>|</action>|```", "", step["action"]).partition("<action>")
    return page, decision_of({}, candidate_of([_action(said.strip(), last)], page.elements, thought=thought.strip()))


def _action(said: str, last: bool) -> Action:
    try:
        call = ast.parse(said, mode="eval").body
        name, values = re.split(r"\W", said)[0], [ast.literal_eval(one) for one in getattr(call, "args", ())]
    except (SyntaxError, ValueError):
        return Other(text=said)
    if name == "send_msg_to_user":
        return spoken(str(values[0]), last)
    if name in CALLS:
        return call_of(name, dict(zip(CALLS[name], values, strict=False))).action
    return Other(text=said)
