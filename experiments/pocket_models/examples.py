"""What the pocket model is taught from, whatever the suite: turns of prompt and reply, made of states."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from bestofq.agents.dialects.commands import words_before
from bestofq.agents.prompting import pick_prompt, propose_prompt, review_prompt, state_text
from bestofq.core.actions import Action, Click, action_text
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.observation import Observation


class Turn(NamedTuple):
    """What the model reads and what it should write."""

    prompt: str
    reply: str


Example = tuple[Turn, ...]
"""Turns that follow one another in one text."""


def candidate(action: Action, observation: Observation, thought: str = "") -> Candidate:
    return Candidate(action=action, label=action_text(action, observation.elements), thought=thought)


def some_candidates(
    known: Sequence[Candidate], seen: Observation, stray: Callable[[], Action | None], rng: Random, *, count: int
) -> list[Candidate]:
    """Those known, and others of `stray` up to `count` in all, in random order."""
    found = {c.label: c for c in known}
    for _ in range(8):
        if len(found) < count and (action := stray()) is not None:
            other = candidate(action, seen)
            found.setdefault(other.label, other)
    return rng.sample(list(found.values()), len(found))


def proposing(state: State, best: Candidate, *, named: bool = False) -> Example:
    """A thought, then the action as a command. `named`: a click says the words that stand before its mark, so that the
    mark is what follows them on the page, which a small model finds far more easily."""
    command = action_text(best.action)
    if named and isinstance(best.action, Click) and best.action.mark is not None:
        words = words_before(best.action.mark, state.observation)
        command = f"click {words} [{best.action.mark}]" if words else command
    return (Turn(propose_prompt(state), f" {best.thought}\n{command}"),)


def looking_up(state: State, marks: Sequence[int]) -> Example:
    """The marks of a page, each after the words that stand before it: a drill in finding them."""
    page = state.observation
    asked = [(mark, f"click {words}") for mark in marks if (words := words_before(mark, page))]
    heads = [f"{state_text(state)}marks:\n", *("\n" for _ in asked[1:])]
    return tuple(Turn(head + words, f" [{mark}]") for head, (mark, words) in zip(heads, asked, strict=False))


def picking(state: State, listed: Sequence[Candidate], best: Candidate) -> Example:
    """The number of the best of those listed."""
    return (Turn(pick_prompt(state, listed), f" {listed.index(best) + 1}"),)


def reviewing(state: State, reviewed: Sequence[tuple[Candidate, str]]) -> Example:
    """A review of one candidate after another, in one text."""
    (first, _), *rest = reviewed
    prompts = [review_prompt(state, first), *(f"\n{review_prompt(state, c, first=False)}" for c, _ in rest)]
    return tuple(Turn(prompt, f" {review}") for prompt, (_, review) in zip(prompts, reviewed, strict=True))


def verdict(checks: Sequence[tuple[str, bool]], right: bool | None = None) -> str:
    """`lamp fits, under 60 not: wrong`; right where all are met, unless it is given."""
    met = all(fits for _, fits in checks) if right is None else right
    listed = ", ".join(f"{what} {'fits' if fits else 'not'}" for what, fits in checks)
    return f"{listed}: {'right' if met else 'wrong'}"


def after(state: State, taken: Candidate, observation: Observation) -> State:
    """The state that an action led to."""
    done = Decision(candidates=(taken,), scores=(0.0,), chosen=0)
    return State(task=state.task, decisions=(*state.decisions, done), observation=observation)
