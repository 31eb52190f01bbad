"""What outcomes count, what is left out of success, and who gave the verdicts, in words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import get_args

from bestofq.core.decision import DECIDED, Outcome
from bestofq.store.records import EpisodeSummary


def outcomes_of(finished: Iterable[EpisodeSummary], cut: int) -> dict[Outcome, int]:
    """How many finished episodes came to each outcome; `infra_error`: the `cut` ones that never finished."""
    counts = Counter[str | None](episode.outcome for episode in finished) | Counter[str | None](infra_error=cut)
    return {name: counts[name] for name in get_args(Outcome) if counts[name]}


def count_unfinished(cut: Iterable[EpisodeSummary], finished: Iterable[EpisodeSummary]) -> Counter[str]:
    """By agent, the episodes that were cut and have no finished episode."""
    lost = {(e.run, e.agent, e.key) for e in cut}
    done = ((e.run, e.agent, e.key) for e in finished) if lost else ()
    return Counter(agent for _, agent, _ in lost.difference(done))


def count_judged(outcomes: Mapping[Outcome, int]) -> int:
    """How many of them a success rate is a share of."""
    return sum(count for outcome, count in outcomes.items() if outcome in DECIDED)


def outcome_notes(rows: Iterable[Mapping[Outcome, int]]) -> list[str]:
    """What is left out of the rates, and what is not, one sentence each."""
    total = sum(map(Counter, rows), Counter[Outcome]())
    notes = []
    if total["blocked"] or total["impossible"]:
        notes.append("Blocked and impossible episodes count as not successful, as in the paper (D).")
    if total["unparseable"] or total["unjudged"]:
        notes.append(
            f"{total['unparseable']} unparseable and {total['unjudged']} unjudged episodes are left out of success: "
            "`bestofq judge` judges them again."
        )
    if total["infra_error"]:
        notes.append(
            f"{total['infra_error']} episodes cut by the infrastructure and never finished are left out of success."
        )
    return notes


def judges_of(episodes: Iterable[EpisodeSummary]) -> dict[str, int]:
    """How many verdicts that tell each judge gave; the environment's are left out."""
    return dict(Counter(e.judge for e in episodes if e.decided and e.judge))


def judge_notes(judges: Iterable[Mapping[str, int]], outcomes: Iterable[Mapping[Outcome, int]]) -> list[str]:
    """Which of the verdicts are a judge's, a sentence a judge."""
    total, decided = sum(map(Counter, judges), Counter[str]()), sum(map(count_judged, outcomes))
    return [
        f"{count} of {decided} verdicts are by the judge {judge}. These intervals do not include its error: "
        "`bestofq judge --against-env` measures it."
        for judge, count in total.items()
    ]


def outcome_words(outcomes: Mapping[Outcome, int]) -> str:
    """`3 success, 1 blocked (of 4); apart: 1 unparseable`."""
    decided = [f"{count} {name}" for name, count in outcomes.items() if name in DECIDED]
    apart = [f"{count} {name.replace('_', ' ')}" for name, count in outcomes.items() if name not in DECIDED]
    return f"{', '.join(decided)} (of {count_judged(outcomes)})" + (f"; apart: {', '.join(apart)}" if apart else "")
