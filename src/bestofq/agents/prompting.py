"""The texts models read, from templates in `prompts/`: what an agent knows, and what it is asked.

The same state text is the head of the proposer's prompt, of the picker's prompt, and what is embedded as the state
(Best-of-Q, A.3), so that a model's key-value cache for it can serve all three.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import jinja2

from bestofq.core.decision import Candidate, State
from bestofq.core.observation import Task

HISTORY = 8  # past actions shown, the last ones
_TEMPLATES = ("state", "propose", "pick")


@cache
def _source(name: str) -> str:
    return files("bestofq.agents").joinpath("prompts", f"{name}.j2").read_text("utf-8")


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    return environment.from_string(_source(name))


def prompt_hash() -> str:
    """16 hex digits over all templates; kept with each episode and each vector."""
    return hashlib.sha256("\x1f".join(_source(name) for name in _TEMPLATES).encode()).hexdigest()[:16]


def state_text(state: State) -> str:
    """Goal, past actions with what they named, current page; ends with a newline."""
    seen = state.observation
    history = [
        f"{d.candidate.label} ({d.candidate.note})" if d.candidate.note else d.candidate.label
        for d in state.decisions[-HISTORY:]
    ]
    return _template("state").render(
        goal=state.task.goal, history=history, page=seen.text, notices=seen.notices, error=seen.error
    )


def propose_prompt(state: State) -> str:
    return _template("propose").render(state=state_text(state))


def pick_prompt(state: State, candidates: Sequence[Candidate]) -> str:
    return _template("pick").render(state=state_text(state), labels=[c.label for c in candidates])


def candidate_text(candidate: Candidate) -> str:
    """What is embedded as the action: it says what the mark names."""
    return candidate.label


def task_text(task: Task) -> str:
    return task.goal
