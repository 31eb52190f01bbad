"""Was a good action among the candidates, and was it taken (Best-of-Q, 4.5, Fig. 3)? What did the ranker lose?

A model (`experiments/golden.py`) or an oracle (`experiments/ranking.py`) says what is good. Without either, an action
is good if a successful episode of the same task took it on the same page (`sibling_steps`). That is weaker: successful
episodes make detours, and other ways may be good too. Prefer an oracle.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from bestofq.core.actions import Action, identity
from bestofq.core.decision import Episode
from bestofq.core.protocols import Rated
from bestofq.reports.stats import SIGNED, UNIT, Doubles, Interval, Quantity, Span
from bestofq.reports.table import Cell, RowSource, Table, columns


class RatedStep(NamedTuple):
    """`Rated`, as siblings rate it."""

    task: tuple[str, str]
    good: tuple[bool, ...]
    chosen: int


def sibling_steps(episodes: Iterable[Episode]) -> dict[str, list[RatedStep]]:
    """By agent, its steps on pages that a successful episode of another agent has seen on the same task. If an agent
    shares no task with another, its own other episodes count. Pages are alike by address and text, actions by
    `identity`. Of pages only hashes are kept, because a report reads thousands of episodes."""
    agents: dict[tuple[str, str], set[str]] = defaultdict(set)  # by task
    known: dict[Hashable, dict[Action, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))  # who did it
    steps = []
    for episode in episodes:
        who, task = (episode.agent, episode.id), (episode.task.suite, episode.task.id)
        agents[task].add(episode.agent)
        for step in episode.steps:
            page = (task, sha256(repr(step.observation.page).encode()).digest())
            actions = [identity(candidate.action) for candidate in step.decision.candidates]
            steps.append((who, page, actions, step.decision.chosen))
            if episode.verdict.outcome == "success":
                known[page][actions[step.decision.chosen]].add(who)
    sharing = {agent for some in agents.values() if len(some) > 1 for agent in some}
    rated: dict[str, list[RatedStep]] = {agent: [] for some in agents.values() for agent in some}
    for who, page, actions, chosen in steps:
        at = 0 if who[0] in sharing else 1  # siblings differ in agent, or else in episode
        did = known.get(page, {}).items()
        good = {action for action, others in did if any(other[at] != who[at] for other in others)}
        if good:
            rated[who[0]].append(RatedStep(page[0], tuple(action in good for action in actions), chosen))
    return rated


def rated_counts(rated: Iterable[Rated]) -> dict[Hashable, Doubles]:
    """By task [7]: rated steps, with a good action, that took one, contested; lost there by agent, first, chance."""
    tasks: dict[Hashable, Doubles] = defaultdict(lambda: np.zeros(7))
    for step in rated:
        good, held = step.good, any(step.good)
        disputed = held and not all(good)
        lost = not good[step.chosen], not good[0], 1 - sum(good) / len(good)
        tasks[step.task] += (1, held, good[step.chosen], disputed, *(disputed * part for part in lost))
    return dict(tasks)


def count_decisive_steps(rated: Iterable[Rated]) -> int:
    return sum(len({*step.good}) > 1 for step in rated)


def rated_shares(rated: Iterable[Rated]) -> dict[str, Quantity]:
    """Shares of the rated steps at which a good action was proposed (`recall`), proposed and not taken (`missed`),
    taken (`chosen`). Of the contested steps: a good one was taken (`right`) or not (`regret`); what the first candidate
    (`first`) and a uniform choice (`chance`) would have lost; the first's loss minus the agent's (`saved`)."""
    counts = rated_counts(rated)

    def divide(part: int, whole: int, minus: int | None = None, span: Span = UNIT) -> Quantity:
        parts = {task: row[part] - (0 if minus is None else row[minus]) for task, row in counts.items()}
        return Quantity({task: (parts[task], row[whole]) for task, row in counts.items()}, span)

    return {
        "recall": divide(1, 0),
        "missed": divide(1, 0, minus=2),
        "chosen": divide(2, 0),
        "right": divide(3, 3, minus=4),
        "regret": divide(4, 3),
        "first": divide(5, 3),
        "chance": divide(6, 3),
        "saved": divide(5, 3, minus=4, span=SIGNED),
    }


def split_failures(rated: Sequence[Rated]) -> tuple[Sequence[int], Sequence[Interval | None]]:
    steps, held, chosen, *_ = sum(rated_counts(rated).values(), np.zeros(7)).astype(int).tolist()
    shares = rated_shares(rated)
    proposed, missed, taken = (shares[name].measure.interval for name in ("recall", "missed", "chosen"))
    not_proposed = proposed and Interval(low=1 - proposed.high, high=1 - proposed.low)
    return (steps - held, held - chosen, chosen), (not_proposed, missed, taken)


def recall_table(
    rated: Mapping[str, Sequence[Rated]],
    made: Mapping[str, RowSource],
    *,
    rater: str,
    of: Mapping[str, int] | None = None,
) -> Table:
    """A row for each agent with a rated step. `rater` says in words who rated; `of`: how many steps it has in all."""
    rows: list[tuple[Cell, ...]] = []
    for agent, steps in rated.items():
        if steps:
            recall, missed, chosen, _, *lost = (share.measure for share in rated_shares(steps).values())
            number = (of or {}).get(agent, len(steps))
            rows.append((agent, number, len(steps), recall, missed, chosen, count_decisive_steps(steps), *lost))
    return Table.of(
        "recall",
        "Candidate recall and the ranker's regret (Best-of-Q, Fig. 3)",
        columns(
            *("agent", "steps", "rated", "recall %", "good missed %", "good taken %", "contested", "regret %"),
            *("regret of the first %", "regret by chance %", "saved by ranking %"),
            signed=["saved by ranking"],
        ),
        rows,
        f"Rated by {rater}. Recall: a good action was among the candidates. 95 % bootstrap over tasks.",
        "Contested: steps that hold good and other candidates. Regret: share of them at which another was taken; "
        "saved: how much less that is than for the proposer's first candidate on the same steps.",
        made=made,
    )
