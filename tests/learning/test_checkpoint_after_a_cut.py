"""A checkpoint after a power cut, or a kill, at any moment of its writing: the old one or the new one."""

import os
import signal
from itertools import count
from pathlib import Path

import pytest
from forked import Forked
from power import Disk, watched

from bestofq.core.embedding import EmbedSpec
from bestofq.learning.checkpoint import load_learner, save_learner
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import IQL

SPEC = EmbedSpec(model="m", revision="1", dim=8)
CONFIG = IQLConfig(device="cpu", network=NetworkConfig(project=None, hidden=(8,)))


def learner(step: int) -> IQL:
    iql = IQL(8, CONFIG.model_copy(update={"seed": step}))
    iql.step = step
    return iql


def save(folder: Path, step: int) -> None:
    save_learner(folder, learner(step), embed=SPEC, train_n=3)


def test_after_a_power_cut_at_any_moment_it_is_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, moments = tmp_path / "q", count()
    save(folder, 1)
    disk, found = Disk(folder), set()

    def moment() -> None:
        for left in disk.after_a_cut(tmp_path / str(next(moments))):
            found.add(load_learner(left, embed=SPEC).step)

    with watched(disk, monkeypatch, moment):
        save(folder, 2)
    moment()
    assert found == {1, 2}
    assert next(moments) > 8
    assert {load_learner(left, embed=SPEC).step for left in disk.after_a_cut(tmp_path / "end")} == {2}


def save_and_die(folder: Path, at: int) -> None:
    calls = count(1)

    def dying(handle: int) -> None:
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = dying
    save(folder, 2)


def test_killed_within_the_write_it_is_the_old_one_and_the_next_write_succeeds(tmp_path: Path) -> None:
    save(tmp_path / "q", 1)
    for at in (1, 2, 3):
        killed = Forked(tmp_path / "log", save_and_die, tmp_path / "q", at)
        assert killed.wait() == -signal.SIGKILL, killed.said
        assert load_learner(tmp_path / "q", embed=SPEC).step == 1
    save(tmp_path / "q", 2)
    assert load_learner(tmp_path / "q", embed=SPEC).step == 2
