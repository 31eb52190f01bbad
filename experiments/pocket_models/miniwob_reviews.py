"""Reviews of candidates in MiniWoB++: what of the goal an action meets, by goal, past actions and its label alone.

Exercises in reading, not advice, as the shop's: `kiwi fits, new fits: right`. A button needs what the goal names before
it to be done: Submit after one of two boxes is `kiwi fits, plum not: wrong`. Judged is only what a goal with names
tells; what the page alone can tell (a sum, the next tab, the cheapest ticket) is `moves on`, or `moves on again`.
"""

import re
from collections.abc import Sequence

from bestofq.core.actions import Write
from bestofq.core.decision import Candidate, State
from experiments.pocket_models.examples import verdict

TICKED = " (checked)"
LISTED = 4  # names gone through one by one; a review is read up to 48 tokens (`agents/embedding_texts.py`)
_LIST = r"\bSelect (.+?) (?:and click|from the|with the)\b"
_NAMES = r'"([^"]+)"|\bbutton ([A-Z]\w*)|^Click on ([A-Z].*)\.$'
_CLOSING = ("submit", "search")


def review(state: State, candidate: Candidate) -> str:
    """A line on one candidate."""
    past = [decision.candidate.label for decision in state.decisions]
    label, goal = candidate.label, state.task.goal
    names = asked(goal)
    checks: list[tuple[str, bool]] = []
    if names is not None and isinstance(candidate.action, Write):
        text = candidate.action.text
        field = label[: label.rindex(f'"{text}"')]
        last = next((before for before in reversed(past) if before.startswith(field)), "")
        checks = [(text, text in names), ("new", last != label)]
    elif names is not None and label.startswith("click "):
        role, _, name = label.removeprefix("click ").partition(" ")
        name, ticked, _ = name.partition(TICKED)
        if role == "checkbox":
            wanted = name in names
            return verdict([(name, wanted), ("new", not ticked)], right=wanted == (not ticked))
        if role == "button" and (name in names or _closes(goal, name)):
            before = asked(goal[: _place(goal, name)]) or () if name in names or _place(goal, name) >= 0 else names
            checks = _all_done(past, before)
            if all(met for _, met in checks):
                checks += [(name, True), ("new", label not in past)]
        elif name in names:
            checks = [(name, True), ("new", not ticked and not _done(past, name, names))]
    if not checks:
        return "moves on again" if label in past else "moves on"
    return verdict(checks)


def asked(goal: str) -> Sequence[str] | None:
    """The names that a goal gives: quoted, listed after `Select`, or called buttons or tabs; None where it gives none.

    `Select nothing` gives an empty list. Where the text is to be in upper or lower case, so are the names.
    """
    listed = re.search(_LIST, goal)
    names = listed[1].split(", ") if listed else ["".join(found) for found in re.findall(_NAMES, goal)]
    if names == ["nothing"]:
        return ()
    if "upper case" in goal or "lower case" in goal:
        names = [name.upper() if "upper case" in goal else name.lower() for name in names]
    return [name for name in names if name.lower() not in _CLOSING] or None


def _closes(goal: str, name: str) -> bool:
    """Whether a button ends what the goal says before it: `… and press login`."""
    return name.lower() in _CLOSING or (_place(goal, name) >= 0 and asked(goal[: _place(goal, name)]) is not None)


def _all_done(past: Sequence[str], names: Sequence[str]) -> list[tuple[str, bool]]:
    """Name by name to the first that is not done; a long list that is done in one word."""
    done = [(name, _done(past, name, names)) for name in names]
    missing = next((index for index, (_, met) in enumerate(done) if not met), None)
    if missing is not None:
        return done[max(0, missing + 1 - LISTED) : missing + 1]
    return done if len(done) <= LISTED else [("all", True)]


def _done(past: Sequence[str], name: str, names: Sequence[str]) -> bool:
    """The last action that names it did not untick it; what is written over is not done where one text is asked (of
    several fields without names the labels do not tell which was written)."""
    last = next((label for label in reversed(past) if _place(label, name) >= 0), None)
    if last is None or last.endswith(TICKED):
        return False
    writes = [label for label in past if label.startswith("write ")]
    return len(names) > 1 or last not in writes or last == writes[-1]


def _place(text: str, name: str) -> int:
    """Where a name last stands as whole words; -1 where it does not."""
    places = [m.start() for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    return places[-1] if name and places else -1
