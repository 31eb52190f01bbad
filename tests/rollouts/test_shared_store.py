"""Several processes collect the same run into one store, and one of them is killed."""

import time
from collections import Counter
from pathlib import Path

from forked import Forked
from kill_child import collect
from test_kill import lines

from bestofq.store.location import Location
from bestofq.store.store import Store

EPISODES = 60


def test_each_slot_is_finished_once_and_no_acknowledged_step_is_lost(database: str, tmp_path: Path) -> None:
    where, logs = Location(database, str(tmp_path / "files")), [tmp_path / f"log{n}" for n in range(3)]
    children = [Forked(tmp_path / "said", collect, where, log, EPISODES) for log in logs]
    while sum(one[0] == "step" for one in lines(logs[0])) < 20:
        assert children[0].runs, children[0].said
        time.sleep(0.005)
    children[0].kill()
    assert [child.wait() for child in children[1:]] == [0, 0], children[1].said
    Forked(tmp_path / "said", collect, where, tmp_path / "last", EPISODES).wait()
    said = [line for log in (*logs, tmp_path / "last") for line in lines(log)]
    with Store.open(where, read_only=True) as store:
        stored = {one.id: one for status in ("finished", "interrupted") for one in store.episodes(status=status)}
        finished = Counter(one.key.task for one in store.summaries())
        assert finished == {f"t{n}": 1 for n in range(EPISODES)}
        assert not store.summaries(status="running")
        steps = Counter((episode, index) for kind, episode, index in filter(_full, said) if kind == "step")
        assert set(steps.values()) == {1}
        assert all(int(index) < len(stored[episode].steps) for episode, index in steps)
        assert sum(sum(1 for line in lines(log) if line[0] == "finish") > 3 for log in logs[1:]) == 2, "one played all"


def _full(line: list[str]) -> bool:
    return len(line) == 3
