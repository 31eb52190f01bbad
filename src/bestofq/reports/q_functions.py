"""Which Q-function scored an episode. Two Q-functions under one agent's name are two agents in every table."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

DIGITS = 6  # of a Q-function's hash that are shown, where so many tell it from the others
BASELINE = "prompting"


class QFunctions:
    """The Q-functions that scored the episodes of some runs, by their checkpoints' names."""

    def __init__(self, store: Store, runs: Iterable[str]) -> None:
        self._by_episode: dict[str, str] = {}
        self._by_agent: dict[tuple[str, str], set[str]] = defaultdict(set)
        for run in dict.fromkeys(runs):
            for episode, agent, checkpoint in store.scorers(run):
                self._by_episode[episode] = checkpoint
                self._by_agent[run, agent].add(checkpoint)

    def of(self, episode: EpisodeSummary) -> str | None:
        """The one that its first step names, else the only one of its agent in its run; None: none scored it."""
        agents = self._by_agent.get((episode.run, episode.agent), set())
        only = next(iter(agents)) if len(agents) == 1 else None
        return self._by_episode.get(episode.id, only)


def suffixes(checkpoints: Collection[str | None]) -> dict[str | None, str]:
    """What to put behind an agent's name for each of its Q-functions: ` @3fa2c1`, nothing where there is only one."""
    if len(checkpoints) < 2:
        return dict.fromkeys(checkpoints, "")
    hashes = {name: "none" if name is None else name.rpartition("-")[2] for name in checkpoints}
    digits = DIGITS
    while digits < max(map(len, hashes.values())) and len({text[:digits] for text in hashes.values()}) < len(hashes):
        digits += 1
    return {name: f" @{text[:digits]}" for name, text in hashes.items()}
