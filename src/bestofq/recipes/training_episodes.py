"""The stored episodes that a Q-function learns from."""

from collections.abc import Sequence
from operator import attrgetter

from bestofq.core.errors import DataError
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


def select_episodes(store: Store, runs: Sequence[str], episodes: int | None = None) -> list[EpisodeSummary]:
    """Return the finished episodes of `runs`, or the first `episodes` of those that teach, pass after pass.

    A run that is named twice counts once. DataError if there are fewer episodes, or no such run.
    """
    known = [run.name for run in store.runs()]
    if missing := [run for run in runs if run not in known]:
        others = f"it has {', '.join(known)}: give --run {known[0]}" if known else "it has none: collect episodes first"
        raise DataError(f"there is no run {missing[0]!r} in the store: {others}")
    every = [store.summaries(run=run) for run in dict.fromkeys(runs)]
    if episodes is None:
        return [one for some in every for one in some]
    found = [e for some in every for e in sorted(some, key=attrgetter("fair_order")) if e.decided and e.steps]
    if len(found) < episodes:
        raise DataError(
            f"{', '.join(runs)}: {len(found)} decided episodes, fewer than {episodes}: ask for fewer, or collect more"
        )
    return found[:episodes]
