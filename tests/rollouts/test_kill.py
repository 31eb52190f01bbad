"""kill -9 at random moments: nothing acknowledged is lost, nothing that was stored is done again."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

from forked import Forked
from kill_child import collect

from bestofq.store.store import Store

KILLS = 20
EPISODES = 200


def lines(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def wait_for_more(log: Path, before: int) -> None:
    """Until the child has opened its store and acknowledged something."""
    until = time.monotonic() + 60
    while len(lines(log)) <= before:
        assert time.monotonic() < until
        time.sleep(0.005)


def test_twenty_kills(tmp_path: Path) -> None:
    folder, log = tmp_path / "store", tmp_path / "log"
    moments = random.Random(0)
    for number in range(KILLS):
        before = len(lines(log))
        child = Forked(tmp_path / "said", collect, folder, log, EPISODES)
        if number % 5:  # the others are killed while they open the store
            wait_for_more(log, before)
            time.sleep(moments.uniform(0.0, 0.08))
        else:
            time.sleep(moments.uniform(0.0, 0.1))
        assert child.kill() == -signal.SIGKILL, child.said
    assert sum(what == "finish" for what, *_ in lines(log)) < EPISODES, "nothing was left for the last child"
    last = Forked(tmp_path / "said", collect, folder, log, EPISODES)
    assert last.wait() == 0, last.said

    said = lines(log)
    task_of = {rest[0]: rest[1] for what, *rest in said if what == "begin"}
    with Store.open(folder, read_only=True) as store:
        episodes = list(store.episodes(run="killed"))
        interrupted = list(store.episodes(run="killed", status="interrupted"))
        stored = {episode.id: episode for episode in [*episodes, *interrupted]}
        assert Counter(episode.task.id for episode in episodes) == {f"t{n}": 1 for n in range(EPISODES)}
        for episode, task in task_of.items():
            assert stored[episode].task.id == task
        done: set[str] = set()
        stepped: set[str] = set()
        for what, *rest in said:
            if what == "begin":
                assert rest[1] not in done, "a finished episode was begun again"
                assert rest[1] not in stepped, "an episode with steps was begun again"
            elif what == "step":
                stepped.add(task_of[rest[0]])
                assert len(stored[rest[0]].steps) > int(rest[1]), "an acknowledged step was lost"
            elif what == "finish":
                assert rest[0] in {episode.id for episode in episodes}, "an acknowledged verdict was lost"
                done.add(task_of[rest[0]])
    assert sum(len(episode.steps) for episode in interrupted) == 0, "a step was played again"
    assert all([step.index for step in episode.steps] == list(range(len(episode.steps))) for episode in stored.values())
