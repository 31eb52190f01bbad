import json
import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from flips import flips
from forked import Forked
from power import Disk, watched
from safetensors import torch as safetensors

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.transitions import Transitions
from bestofq.learning.checkpoint import (
    CARD,
    export_value,
    load_learner,
    load_value,
    read_card,
    save_learner,
    training_tensors,
)
from bestofq.learning.config import IQLConfig, NetworkConfig, Scaling
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.value import ValueModel


@pytest.mark.parametrize(("precision", "scaling"), [("fp32", None), ("bf16", None), ("bf16", "whiten")])
def test_resuming_is_bit_for_bit(
    tmp_path: Path, data: Transitions, config: IQLConfig, embed: EmbedSpec, precision: str, scaling: Scaling | None
) -> None:
    def at_100(iql: IQL) -> None:
        if iql.step == 40:  # not a multiple of target_update_every
            save_learner(tmp_path, iql, embed=embed, train_n=3)

    network = config.network.model_copy(update={"scaling": scaling})
    config = config.model_copy(update={"steps": 70, "precision": precision, "network": network})
    through = train_iql(data, config, on_step=at_100)
    loaded = load_learner(tmp_path, embed=embed)
    assert loaded.step == 40
    resumed = train_iql(data, config, resume=loaded)
    assert resumed.step == through.step == 70
    torch.testing.assert_close(training_tensors(resumed), training_tensors(through), rtol=0, atol=0)


def test_resuming_refuses_other_data(tmp_path: Path, data: Transitions, config: IQLConfig, embed: EmbedSpec) -> None:
    save_learner(tmp_path, train_iql(data, config.model_copy(update={"steps": 3})), embed=embed, train_n=3)
    with pytest.raises(CheckpointError, match="was trained on data"):
        train_iql(replace(data, reward=1 - data.reward), resume=load_learner(tmp_path, embed=embed))


def test_export_is_small_and_values_agree(
    tmp_path: Path, data: Transitions, config: IQLConfig, embed: EmbedSpec
) -> None:
    iql = train_iql(data, config.model_copy(update={"steps": 5}))
    export_value(tmp_path / "slim", iql, embed=embed, train_n=3)
    save_learner(tmp_path / "full", iql, embed=embed, train_n=3)
    live = ValueModel(iql.q, iql.v, embed=embed, train_n=3)
    slim, full = (load_value(tmp_path / kind, embed=embed) for kind in ("slim", "full"))

    assert live.checkpoint is None
    assert f"{slim.checkpoint}.safetensors" == read_card(tmp_path / "slim").weights
    assert slim.checkpoint != full.checkpoint

    rng = np.random.default_rng(0)
    state, task = rng.standard_normal((2, 5, 8)).astype(np.float32)
    action = rng.standard_normal((5, 3, 8)).astype(np.float32)
    assert slim.q(state, action, task).shape == (5, 3)
    np.testing.assert_allclose(slim.q(state, action, task), live.q(state, action, task), atol=2e-3)
    np.testing.assert_array_equal(full.q(state, action, task), live.q(state, action, task))
    np.testing.assert_allclose(full.q(state, action[:, 1], task), live.q(state, action, task)[:, 1], atol=1e-6)
    np.testing.assert_allclose(slim.v(state, task), live.v(state, task), atol=2e-3)
    assert (slim.train_n, slim.discount) == (3, config.discount)

    files = sorted((tmp_path / "slim").iterdir())
    assert [file.name for file in files] == [CARD, read_card(tmp_path / "slim").weights]
    card = json.loads((tmp_path / "slim" / CARD).read_text())
    assert (card["train_n"], card["embed"]["model"], card["config"]["expectile"]) == (3, "pocket", 0.7)
    assert files[1].stat().st_size < 2 * sum(p.numel() for p in [*iql.q.parameters(), *iql.v.parameters()])


def test_refuses_nan_and_keeps_the_older_checkpoint(
    tmp_path: Path, data: Transitions, config: IQLConfig, embed: EmbedSpec
) -> None:
    iql = IQL(8, config)
    export_value(tmp_path, iql, embed=embed, train_n=3)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with torch.no_grad():
        iql.v.out.bias.fill_(float("nan"))
    with pytest.raises(CheckpointError, match=r"`v\.out\.bias` holds NaN or inf"):
        export_value(tmp_path, iql, embed=embed, train_n=3)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_saving_again_leaves_one_set_of_weights(tmp_path: Path, config: IQLConfig, embed: EmbedSpec) -> None:
    stranger = tmp_path / "model.safetensors"
    stranger.write_bytes(b"someone else's")
    for seed in (0, 1):
        export_value(tmp_path, IQL(8, config.model_copy(update={"seed": seed})), embed=embed, train_n=3)
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([CARD, read_card(tmp_path).weights, stranger.name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 16}, "dim 8, not 16"),
        ({"model": "other", "layer": -2}, "model 'pocket', not 'other', layer -1, not -2"),
    ],
)
def test_refuses_another_embedding_by_name(
    tmp_path: Path, config: IQLConfig, embed: EmbedSpec, change: dict[str, object], message: str
) -> None:
    save_learner(tmp_path, IQL(8, config), embed=embed, train_n=3)
    other = embed.model_copy(update=change)
    for load in (load_learner, load_value):
        with pytest.raises(CheckpointError, match=message):
            load(tmp_path, embed=other)


def test_refuses_vectors_of_another_dim(config: IQLConfig, embed: EmbedSpec) -> None:
    iql = IQL(8, config)
    model = ValueModel(iql.q, iql.v, embed=embed, train_n=3)
    with pytest.raises(CheckpointError, match="A vector has 9 numbers, but Q and V were trained on 8"):
        model.v(np.zeros((1, 9), np.float32), np.zeros((1, 8), np.float32))


def test_says_what_is_missing_or_broken(tmp_path: Path, config: IQLConfig, embed: EmbedSpec) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load_value(tmp_path, embed=embed)
    export_value(tmp_path, IQL(8, config), embed=embed, train_n=3)
    weights = tmp_path / read_card(tmp_path).weights
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=weights.name):
        load_value(tmp_path, embed=embed)
    weights.unlink()
    with pytest.raises(CheckpointError, match="are missing"):
        load_value(tmp_path, embed=embed)
    (tmp_path / CARD).write_text("{}")
    with pytest.raises(CheckpointError, match=r"not a checkpoint of this version \(kind: Field required\): make it"):
        load_value(tmp_path, embed=embed)


def test_a_flipped_bit_a_nan_or_another_value_is_refused(tmp_path: Path, config: IQLConfig, embed: EmbedSpec) -> None:
    export_value(tmp_path, IQL(8, config), embed=embed, train_n=3)
    weights, card = tmp_path / read_card(tmp_path).weights, tmp_path / CARD
    tensors = safetensors.load(weights.read_bytes()).items()
    nan = safetensors.save({name: torch.full_like(tensor, torch.nan) for name, tensor in tensors})
    other = card.read_bytes().replace(b'"train_n": 3', b'"train_n": 2')
    for file, worse, number in ((weights, nan, 20), (card, other, 40)):
        content = file.read_bytes()
        assert worse != content
        for damage in (*flips(content, number), worse):
            file.write_bytes(damage)
            with pytest.raises(CheckpointError, match=file.name):
                load_value(tmp_path, embed=embed)
        file.write_bytes(content)


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
