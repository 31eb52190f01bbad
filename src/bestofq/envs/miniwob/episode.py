"""The script that begins and reads an episode in a MiniWoB++ page, and what it answers."""

import json
from importlib.resources import files
from typing import Any, NamedTuple

from bestofq.browser.session import Session

_SCRIPT = files("bestofq.envs.miniwob").joinpath("episode.js").read_text("utf-8").strip()


class Standing(NamedTuple):
    """How an episode stands."""

    left: bool = False  # the page shown is not the task's
    begun: bool = False  # just now: the document is new
    goal: str = ""
    done: bool = False
    raw: float = 0.0  # -1 to 1, without the page's penalty for time


async def read(session: Session, path: str, seed: int) -> Standing:
    """How the episode stands in the session's page; begins it with `seed` where the document is new.

    Raises BrowserError when the page has no task ready within the browser's `navigation` seconds.
    """
    patience = round(session.config.navigation * 1000)
    answer = await session.evaluate(f"{_SCRIPT}({json.dumps(path)}, {seed}, {patience})")
    if answer["left"]:
        return Standing(left=True)
    return Standing(
        begun=answer["begun"],
        goal=_goal(answer["utterance"]),
        done=answer["done"],
        raw=float(answer["raw"]),
    )


def _goal(utterance: Any) -> str:
    """An utterance as one line: its text where the page adds its fields, a flight's JSON in words."""
    if isinstance(utterance, dict):
        utterance = utterance["utterance"]
    text = " ".join(str(utterance).split())
    if text.startswith("{") and text.endswith("}"):
        return "Book a flight. " + ", ".join(f"{key}: {value}" for key, value in json.loads(text).items())
    return text
