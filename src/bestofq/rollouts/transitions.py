"""Stored episodes as (s, a, r, s', terminal): first what is to be embedded, once each, then the arrays of IQL."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from bestofq.core.decision import DECIDED, Candidate, Episode, State, Verdict, state_at
from bestofq.core.embedding import EmbedItem
from bestofq.core.errors import DataError
from bestofq.core.observation import Task
from bestofq.core.transitions import Bools, Floats, Ints, Transitions

Reward = Literal["success", "score"]
"""success: 1 on success, else 0 (Best-of-Q, 3.1); score: the verdict's reward, in [0, 1]."""


class Texts(Protocol):
    """What is embedded of a state, of an action in its state, and of a task (Best-of-Q, A.3)."""

    def state(self, state: State) -> EmbedItem: ...

    def action(self, state: State, candidate: Candidate) -> EmbedItem: ...

    def task(self, task: Task) -> EmbedItem: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One step as IQL sees it, before it is embedded. `next_state` is None at the end."""

    episode: str
    index: int
    state: EmbedItem
    action: EmbedItem
    task: EmbedItem
    next_state: EmbedItem | None
    reward: float
    explored: bool
    success: bool  # of the whole episode

    @property
    def terminal(self) -> bool:
        return self.next_state is None


def records(episodes: Iterable[Episode], texts: Texts, reward: Reward = "success") -> Iterator[Record]:
    """A record per step. The reward is sparse: the last step has the verdict's, all others 0.

    The last step of a judged episode is terminal, running out of steps included. Episodes whose outcome does not tell
    how the agent did (cut, unjudged, unparseable: all but `DECIDED`) are left out, and so are those without a step.
    """
    for episode in episodes:
        if episode.steps and episode.verdict.outcome in DECIDED:
            yield from _of(episode, texts, _reward(episode.verdict, reward))


def _of(episode: Episode, texts: Texts, reward: float) -> Iterator[Record]:
    task = texts.task(episode.task)
    steps = episode.steps
    states = [state_at(episode.task, steps[:index], step.observation) for index, step in enumerate(steps)]
    items = [texts.state(state) for state in states]
    following: list[EmbedItem | None] = [after for _, after in pairwise(items)]
    for step, state, item, after in zip(steps, states, items, [*following, None], strict=True):
        yield Record(
            episode=episode.id,
            index=step.index,
            state=item,
            action=texts.action(state, step.decision.candidate),
            task=task,
            next_state=after,
            reward=reward if after is None else 0.0,
            explored=step.decision.explored,
            success=episode.verdict.outcome == "success",
        )


def _reward(verdict: Verdict, reward: Reward) -> float:
    return float(verdict.outcome == "success") if reward == "success" else verdict.reward


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """T records over U distinct items, ready for their vectors."""

    items: tuple[EmbedItem, ...]  # [U], in order of first appearance
    state: Ints  # [T] rows of `items`
    action: Ints  # [T]
    task: Ints  # [T]
    next_state: Ints  # [T]; the state itself where terminal
    reward: Floats  # [T]
    terminal: Bools  # [T]
    explored: Bools  # [T]
    success: Bools  # [T]

    def __len__(self) -> int:
        return len(self.reward)

    def transitions(self, vectors: Floats) -> Transitions:
        """The training set, given the vectors [U, D] of `items` in their order. DataError on another U."""
        if vectors.ndim != 2 or len(vectors) != len(self.items):
            raise DataError(f"vectors have shape {vectors.shape}, the table has {len(self.items)} distinct items")
        return Transitions(
            vectors=vectors,
            state=self.state,
            action=self.action,
            task=self.task,
            next_state=self.next_state,
            reward=self.reward,
            terminal=self.terminal,
        )


def tabulate(rows: Iterable[Record]) -> Table:
    """Number the distinct items of all records, so that each is embedded once. DataError when there is no record."""
    row_of: dict[str, int] = {}
    items: list[EmbedItem] = []

    def number(item: EmbedItem) -> int:
        row = row_of.setdefault(item.key, len(items))
        if row == len(items):
            items.append(item)
        return row

    indices: list[tuple[int, int, int, int]] = []
    facts: list[tuple[float, bool, bool, bool]] = []
    for record in rows:
        state = number(record.state)
        after = state if record.next_state is None else number(record.next_state)
        indices.append((state, number(record.action), number(record.task), after))
        facts.append((record.reward, record.terminal, record.explored, record.success))
    if not indices:
        raise DataError("there is no finished episode with a step to learn from: collect some first")
    state, action, task, after = np.asarray(indices, dtype=np.int64).T.copy()
    reward, *flags = np.asarray(facts, dtype=np.float32).T.copy()
    terminal, explored, success = (flag.astype(np.bool_) for flag in flags)
    return Table(
        items=tuple(items),
        state=state,
        action=action,
        task=task,
        next_state=after,
        reward=reward,
        terminal=terminal,
        explored=explored,
        success=success,
    )
