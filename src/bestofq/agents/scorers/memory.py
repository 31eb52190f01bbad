"""Scorers that no gradient trains: outcomes of the same and of like actions, and a rule about words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bestofq.core.actions import Action, Marked, Other, Targeted, element_of
from bestofq.core.decision import DECIDED, Candidate, Episode, Scores, State, state_at
from bestofq.core.delexicalise import content_words, delexicalise
from bestofq.core.observation import Observation
from bestofq.core.usage import Usage
from bestofq.learning.memory import Experience, Keys, Memory

BEYOND = "{beyond}"


class _Match(NamedTuple):
    """How a candidate's words fit the goal."""

    pattern: str  # of its label
    kind: str  # of action, with the element's role
    words: int  # of the goal in it
    share: str  # of its content words that are the goal's: none, some, all
    beyond: bool  # dearer than the goal allows

    @property
    def fit(self) -> int:
        return -1 if self.beyond else self.words


def _match(candidate: Candidate, goal: str) -> _Match:
    pattern, own = delexicalise(candidate.label, goal), content_words(candidate.label)
    words = len(own & content_words(goal))
    share = "none" if not words else "all" if words == len(own) else "some"
    kind = " ".join(pattern.split()[: 2 if isinstance(candidate.action, Targeted | Other) else 1])
    return _Match(pattern, kind, words, share, BEYOND in pattern)


def page_pattern(page: Observation) -> str:
    """Return what names a kind of page: its title; without one the first line of its text."""
    return delexicalise(page.title or page.text.strip().partition("\n")[0])


def _place(action: Action, page: Observation) -> tuple[str, str]:
    """Return at most 20 words since the last element of the same role and name, and its number among these."""
    element = element_of(action, page) if isinstance(action, Marked) else None
    equal = [e.mark for e in page.elements if element and (e.role, e.name) == (element.role, element.name)]
    if element is None or len(equal) < 2:
        return "", ""
    number, before = equal.index(element.mark), page.text.rpartition(f"[{element.mark}]")[0]  # "": it is cut off
    since = before.rpartition(f"[{equal[number - 1]}]")[2] if number else before
    words = re.sub(r"\[\d+\]", "", since).removesuffix(f"{element.name or element.role} ").split()
    return " ".join(words[-20:]), str(number)


def memory_keys(state: State, candidates: Sequence[Candidate]) -> list[Keys]:
    """Return what names each candidate [N], from coarse to fine.

    1. The page.
    2. The page, the kind of action, how its words fit the goal, and whether a candidate of this kind fits better.
    3. The page and the action in words, without the goal's own (`delexicalise`). If several elements share
       a name, such as `Add to cart`, with the words before it.
    4. The goal, the page, the action before this one and the action, in words; of several elements with one name,
       which it is. So "click ONE, then TWO" has two steps, though its page stays as it is.
    """
    page, goal = page_pattern(state.observation), state.task.goal
    before = state.decisions[-1].candidate.label if state.decisions else ""
    matches = [_match(candidate, goal) for candidate in candidates]
    best = {match.kind: max(other.fit for other in matches if other.kind == match.kind) for match in matches}
    alone = {match.kind: sum(other.kind == match.kind for other in matches) == 1 for match in matches}
    found: list[Keys] = []
    for candidate, (pattern, kind, words, share, beyond) in zip(candidates, matches, strict=True):
        fit = "only" if alone[kind] else "best" if (-1 if beyond else words) == best[kind] else "worse"
        near, number = _place(candidate.action, state.observation)
        own = (page, f"{pattern} {delexicalise(near, goal)}"), (goal, page, before, candidate.label, near, number)
        levels = (page,), (page, kind, share, str(beyond), fit), *own
        found.append(["\x1f".join((str(level), *key)) for level, key in enumerate(levels)])
    return found


def step_keys(episode: Episode) -> Iterator[list[Keys]]:
    for index, step in enumerate(episode.steps):
        state = state_at(episode.task, episode.steps[:index], step.observation)
        yield memory_keys(state, step.decision.candidates)


def experiences(episodes: Iterable[Episode]) -> Iterator[Experience]:
    for episode in episodes:
        if episode.verdict.outcome in DECIDED:
            chosen = (step.decision.chosen for step in episode.steps)
            steps = [*zip(step_keys(episode), chosen, strict=True)]
            yield Experience(steps, float(episode.verdict.outcome == "success"))


@dataclass(frozen=True)
class MemoryScorer:
    """The remembered value of each candidate, and of the page. It embeds nothing and costs no tokens."""

    memory: Memory

    @property
    def checkpoint(self) -> str:
        return self.memory.checkpoint

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        return ()

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """Values in [0, 1] for each candidate [N]."""
        keys = memory_keys(state, candidates)
        values = tuple(self.memory.recall(one) for one in keys)
        page = self.memory.recall(keys[0][:1])
        return Scores(values=values, state_value=page, checkpoint=self.checkpoint)


@dataclass(frozen=True)
class WordScorer:
    """The share of the goal's words that a candidate has; 0 if it costs more than the goal allows. Learns nothing."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """Values in [0, 1] for each candidate [N]."""
        words = max(1, len(content_words(state.task.goal)))
        matches = (_match(candidate, state.task.goal) for candidate in candidates)
        return Scores(values=tuple(max(0, match.fit) / words for match in matches))
