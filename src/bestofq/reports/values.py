"""Values over an episode's steps: V, the Q of what was taken, and of the other candidates (Best-of-Q, K, Fig. 12)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from bestofq.core.decision import Episode
from bestofq.reports.table import Row, RowSource, Table, columns
from bestofq.store.records import EpisodeSummary


@dataclass(frozen=True)
class ValuedStep:
    """What was thought of a step's candidates; None where a value is no number."""

    index: int
    state_value: float | None
    taken: float | None
    others: tuple[float, ...]
    label: str
    explored: bool


class ValuePath(NamedTuple):
    """An episode as Fig. 12 draws it."""

    episode: str
    run: str
    agent: str
    task: str
    outcome: str
    steps: tuple[ValuedStep, ...]


def value_path(episode: Episode) -> ValuePath:
    """The values that were stored with the episode's decisions."""
    found = []
    for index, decision in enumerate(step.decision for step in episode.steps):
        value, *scores = (
            v if v is not None and isfinite(v) else None for v in (decision.state_value, *decision.scores)
        )
        taken = scores.pop(decision.chosen)
        others = tuple(score for score in scores if score is not None)
        found.append(ValuedStep(index, value, taken, others, decision.candidate.label, decision.explored))
    outcome = episode.verdict.outcome
    return ValuePath(episode.id, episode.run, episode.agent, episode.task.id, outcome, tuple(found))


def telling_pair(episodes: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
    """Two episodes as Fig. 12 shows them: the longest failure among the tasks that another try solved, and the shortest
    success on its task. Where no task has both, the shortest success and the longest failure of all."""
    won = [episode for episode in episodes if episode.success and episode.steps]
    lost = [episode for episode in episodes if episode.decided and not episode.success and episode.steps]
    solved = {episode.key[:2] for episode in won}
    both = [episode for episode in lost if episode.key[:2] in solved]
    worst = max(both or lost, key=lambda e: e.steps, default=None)
    beside = [e for e in won if worst is not None and e.key[:2] == worst.key[:2]]
    best = min(beside or won, key=lambda e: e.steps, default=None)
    return [episode for episode in (best, worst) if episode is not None]


def values_table(paths: Iterable[ValuePath], made: Mapping[str, RowSource]) -> Table:
    """A row a step."""
    return Table(
        name="values",
        title="Values over steps (Best-of-Q, Fig. 12)",
        columns=columns(
            *("episode", "run", "agent", "task", "outcome", "step", "V", "Q taken", "best other Q", "others", "action"),
            digits=3,
        ),
        rows=tuple(
            Row(
                cells=(
                    *(path.episode, path.run, path.agent, path.task, path.outcome, step.index),
                    *(step.state_value, step.taken, max(step.others, default=None), len(step.others), step.label),
                ),
                origin=made.get(path.agent),
            )
            for path in paths
            for step in path.steps
        ),
        notes=("V: the state's value; taken: the candidate that was carried out. Numbers as stored, no estimates.",),
    )
