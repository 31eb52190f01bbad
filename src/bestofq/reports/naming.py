"""One order and one name of the agents, in every table, figure and page."""

import re
from collections.abc import Sequence

ORDER = (  # the baseline, what is learned from nothing, then what has a Q-function; others stand before the last four
    *("prompting", "random", "explore", "vote", "picker", "verifier", "words", "memory"),
    *("own", "best-of-q", "prior", "mcts"),
)
OURS = ("best-of-q", "prior", "mcts")
"""The agents that figures accent: those that a Q-function, or a search, chooses for."""
_SHOWN = {"prior": "best-of-q + prior"}


def kind(name: str) -> str:
    """The agent of a row's name, without the Q-function and the run behind it: `prior` of `prior @3fa2c1 (eval)`."""
    return re.split(r" [@(]", name, maxsplit=1)[0]


def place(name: str) -> tuple[int, str]:
    own = kind(name)
    return ORDER.index(own if own in ORDER else "own"), name


def shown(name: str) -> str:
    """The row's name as people read it: `best-of-q + prior` where the agent is `prior`."""
    own = kind(name)
    return _SHOWN.get(own, own) + name[len(own) :]


def tones(names: Sequence[str], baseline: str | None) -> dict[str, str]:
    """How figures colour rows: `baseline` (grey), `ours` (accent), or nothing (light). `OURS` are, and Agent
    Q's policies; where the rows are no agents, all but the baseline."""
    ours = {name for name in names if kind(name) in OURS or name.startswith("Agent Q")}
    if not any(kind(name) in ORDER for name in names):
        ours = ours or {*names}
    return {name: "baseline" if baseline in (name, kind(name)) else "ours" if name in ours else "" for name in names}
