"""kill -9 at random moments: nothing acknowledged is lost, nothing that was stored is done again."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from forked import Forked
from line_world import LineEnv, line_agent, line_task, maker

from bestofq.core.decision import Provenance, Step
from bestofq.core.observation import Task
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.location import Location
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


SHARED_EPISODES = 60


def test_each_slot_is_finished_once_and_no_acknowledged_step_is_lost(database: str, tmp_path: Path) -> None:
    where, logs = Location(database, str(tmp_path / "files")), [tmp_path / f"log{n}" for n in range(3)]
    children = [Forked(tmp_path / "said", collect, where, log, SHARED_EPISODES) for log in logs]
    while sum(one[0] == "step" for one in lines(logs[0])) < 20:
        assert children[0].runs, children[0].said
        time.sleep(0.005)
    children[0].kill()
    assert [child.wait() for child in children[1:]] == [0, 0], children[1].said
    Forked(tmp_path / "said", collect, where, tmp_path / "last", SHARED_EPISODES).wait()
    said = [line for log in (*logs, tmp_path / "last") for line in lines(log)]
    with Store.open(where, read_only=True) as store:
        stored = {one.id: one for status in ("finished", "interrupted") for one in store.episodes(status=status)}
        finished = Counter(one.key.task for one in store.summaries())
        assert finished == {f"t{n}": 1 for n in range(SHARED_EPISODES)}
        assert not store.summaries(status="running")
        steps = Counter((episode, index) for kind, episode, index in filter(_full, said) if kind == "step")
        assert set(steps.values()) == {1}
        assert all(int(index) < len(stored[episode].steps) for episode, index in steps)
        assert sum(sum(1 for line in lines(log) if line[0] == "finish") > 3 for log in logs[1:]) == 2, "one played all"
        decided = decisions(store)
    Forked(tmp_path / "said", collect, tmp_path / "alone", tmp_path / "alone.log", SHARED_EPISODES).wait()
    with Store.open(tmp_path / "alone", read_only=True) as store:
        assert decided == decisions(store)


def decisions(store: Store) -> dict[str, list[str]]:
    return {one.task.id: [step.decision.candidate.label for step in one.steps] for one in store.episodes()}


def _full(line: list[str]) -> bool:
    return len(line) == 3


class LoggingStore(Store):
    """The store, with a line in the log after each acknowledged commit."""

    log: int

    async def begin_episode(self, run: str, agent: str, task: Task, repeat: int, provenance: Provenance) -> str:
        episode = await super().begin_episode(run, agent, task, repeat, provenance)
        os.write(self.log, f"begin {episode} {task.id}\n".encode())
        return episode

    async def append_step(self, episode: str, step: Step) -> None:
        await super().append_step(episode, step)
        os.write(self.log, f"step {episode} {step.index}\n".encode())

    async def finish_episode(self, episode, verdict, final) -> None:  # type: ignore[no-untyped-def]
        await super().finish_episode(episode, verdict, final)
        os.write(self.log, f"finish {episode} {verdict.outcome}\n".encode())


async def _collect(where: Path | Location, log: Path, episodes: int) -> None:
    LoggingStore.log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    with LoggingStore.open(where) as store:
        await store.begin_run("killed", {"episodes": episodes}, Provenance(version="test"))
        os.write(LoggingStore.log, b"ready\n")
        tasks = [line_task(f"t{number}", length=3) for number in range(episodes)]
        make_env, options = maker(lambda: LineEnv(seconds=0.004)), RunOptions(step_limit=12, seed=7)
        await run_many(tasks, make_env, line_agent(), store=store, run="killed", concurrency=4, options=options)


def collect(where: Path | Location, log: Path, episodes: int) -> None:
    asyncio.run(_collect(where, log, episodes))
