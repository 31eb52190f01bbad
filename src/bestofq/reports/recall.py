"""Was a good action among the candidates, and was it taken (Best-of-Q, 4.5, Fig. 3)? What did the ranker lose?

A model (`experiments/golden.py`) or an oracle (`experiments/ranking.py`) says what is good. Without either, an action
is good if a successful episode of the same task took it on the same page (`sibling_steps`). That is weaker: successful
episodes make detours, and other ways may be good too. Prefer an oracle.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from bestofq.core.actions import Action, identity
from bestofq.core.decision import Episode
from bestofq.core.frozen import FrozenModel
from bestofq.core.protocols import Rated
from bestofq.reports import stats
from bestofq.reports.figures import FailureSplit
from bestofq.reports.stats import UNIT, Doubles, Interval, Measure, Quantity, Span, share
from bestofq.reports.table import RowSource, Table, columns, rows_of


class RatedStep(NamedTuple):
    """`Rated`, as siblings rate it."""

    task: tuple[str, str]
    good: tuple[bool, ...]
    chosen: int


class Recall(FrozenModel):
    """Shares in [0, 1] over the rated steps.

    Contested steps hold both good and other candidates. `regret` is the share of them at which no good one was taken;
    `regret_first` and `regret_chance` are what the first candidate and a uniform choice would have lost.
    """

    agent: str
    steps: int  # rated
    of: int  # steps in all
    recall: Measure  # a good candidate was proposed
    missed: Measure  # one was, and another was taken
    chosen: Measure  # a good candidate was taken
    contested: int
    regret: Measure
    regret_first: Measure
    regret_chance: Measure
    saved: Measure  # regret_first − regret, paired by step
    split: FailureSplit


def sibling_steps(
    episodes: Iterable[Episode], agent: str, references: Iterable[Episode], *, own: bool = False
) -> list[RatedStep]:
    """The agent's steps on pages that a successful episode of the same task has seen, by another agent unless `own`.
    Pages are alike by address and text, actions by `identity`."""
    known: dict[Hashable, dict[Action, set[str]]] = defaultdict(lambda: defaultdict(set))  # page: action: who did it
    for reference in references:
        if reference.verdict.outcome == "success" and (own or reference.agent != agent):
            for step in reference.steps:
                page = (reference.task.suite, reference.task.id, step.observation.page)
                known[page][identity(step.decision.candidate.action)].add(reference.id)
    rated = []
    for episode in episodes:
        task = (episode.task.suite, episode.task.id)
        for step in episode.steps if episode.agent == agent else ():
            did = known.get((*task, step.observation.page), {})
            good = {action for action, who in did.items() if who - {episode.id}}
            if good:
                held = tuple(identity(candidate.action) in good for candidate in step.decision.candidates)
                rated.append(RatedStep(task, held, step.decision.chosen))
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


def rated_shares(rated: Iterable[Rated]) -> dict[str, Quantity]:
    """Shares: a good action was proposed; of contested steps, another was taken (regret), a good one (right)."""
    counts = rated_counts(rated).items()
    return {
        "recall": Quantity({task: (held[1], held[0]) for task, held in counts}, UNIT),
        "regret": Quantity({task: (held[4], held[3]) for task, held in counts}, UNIT),
        "right": Quantity({task: (held[3] - held[4], held[3]) for task, held in counts}, UNIT),
    }


def recall(agent: str, rated: Iterable[Rated], *, of: int | None = None) -> Recall:
    """Recall and regret of one agent's rated steps; intervals over tasks."""
    counts = np.array(list(rated_counts(rated).values())).reshape(-1, 7)  # [T, 7]
    steps, held, chosen, contested = counts[:, :4].sum(axis=0).astype(int).tolist()

    def divide(part: int, whole: int, *, minus: int | None = None, span: Span = UNIT) -> Measure:
        """One column, less another, by a third."""
        parts = counts[:, part] - (0 if minus is None else counts[:, minus])
        return stats.measure(np.stack([parts, counts[:, whole]], axis=1), lambda sums: share(*sums.T), span=span)

    found, missed, taken = divide(1, 0), divide(1, 0, minus=2), divide(2, 0)
    split = None
    if found.interval and missed.interval and taken.interval:  # not proposed; proposed and not taken; taken
        split = Interval(low=1 - found.interval.high, high=1 - found.interval.low), missed.interval, taken.interval
    return Recall(
        agent=agent,
        steps=steps,
        of=steps if of is None else of,
        recall=found,
        missed=missed,
        chosen=taken,
        contested=contested,
        regret=divide(4, 3),
        regret_first=divide(5, 3),
        regret_chance=divide(6, 3),
        saved=divide(5, 3, minus=4, span=stats.SIGNED),
        split=FailureSplit(not_proposed=steps - held, not_chosen=held - chosen, chosen=chosen, intervals=split),
    )


def recall_table(rows: Iterable[Recall], made: Mapping[str, RowSource], *, rater: str) -> Table:
    """A row for each agent; `rater` says in words who rated."""
    return Table(
        name="recall",
        title="Candidate recall and the ranker's regret (Best-of-Q, Fig. 3)",
        columns=columns(
            *("agent", "steps", "rated", "recall %", "good missed %", "good taken %", "contested", "regret %"),
            *("regret of the first %", "regret by chance %", "saved by ranking %"),
            signed=["saved by ranking"],
        ),
        rows=rows_of(
            *(rows, made, "agent", "of", "steps", "recall", "missed", "chosen", "contested", "regret"),
            *("regret_first", "regret_chance", "saved"),
        ),
        notes=(
            f"Rated by {rater}. Recall: a good action was among the candidates. 95 % bootstrap over tasks.",
            "Contested: steps that hold good and other candidates. Regret: share of them at which another was taken; "
            "saved: how much less that is than for the proposer's first candidate on the same steps.",
        ),
    )
