"""kill -9 at random moments: nothing acknowledged is lost, nothing finished is done again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from bestofq.store.store import Store

KILLS = 20
EPISODES = 200
CHILD = Path(__file__).with_name("kill_child.py")


def lines(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


class Children:
    """Processes that collect, one after another; see `kill_child.py`."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = [sys.executable, str(CHILD), str(folder), str(log), str(EPISODES)]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self) -> int:
        """The id of the next one."""
        assert self._parent.stdin is not None
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        return self._said()

    def status(self) -> int:
        """How it ended: its exit code, or the signal's number below 0."""
        return self._said()

    def close(self) -> None:
        self._parent.communicate()

    def _said(self) -> int:
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())


def wait_for_more(log: Path, before: int) -> None:
    """Until the child has opened its store and acknowledged something."""
    until = time.monotonic() + 60
    while len(lines(log)) <= before:
        assert time.monotonic() < until
        time.sleep(0.005)


def test_twenty_kills(tmp_path: Path) -> None:
    folder, log = tmp_path / "store", tmp_path / "log"
    moments = random.Random(0)
    children = Children(folder, log)
    for number in range(KILLS):
        before = len(lines(log))
        child = children.start()
        if number % 5:  # the others are killed while they open the store
            wait_for_more(log, before)
            time.sleep(moments.uniform(0.0, 0.08))
        else:
            time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert children.status() == -signal.SIGKILL
    assert sum(what == "finish" for what, *_ in lines(log)) < EPISODES, "nothing was left for the last child"
    children.start()
    assert children.status() == 0
    children.close()

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
        for what, *rest in said:
            if what == "begin":
                assert rest[1] not in done, "a finished episode was begun again"
            elif what == "step":
                assert len(stored[rest[0]].steps) > int(rest[1]), "an acknowledged step was lost"
            elif what == "finish":
                assert rest[0] in {episode.id for episode in episodes}, "an acknowledged verdict was lost"
                done.add(task_of[rest[0]])
    assert interrupted, "no kill fell into an episode"
    assert all([step.index for step in episode.steps] == list(range(len(episode.steps))) for episode in stored.values())
