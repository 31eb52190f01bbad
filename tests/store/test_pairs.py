import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from flips import flips

from bestofq.core.errors import DataError
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.store.pairs import PairSource, read_pairs, write_pairs

SOURCE = PairSource(model="pocket", revision="abc", prompt="0123", tokens="45")


def turn(prompt: int, *reply: int, log_prob: float = -1.5) -> Turn:
    return Turn(prompt_ids=(1, prompt), reply_ids=reply, log_prob=log_prob)


STEP = PreferencePair(chosen=(turn(7, 8, 2),), rejected=(turn(7, 9, 2, log_prob=-3.25),), margin=0.4, task="t", node=3)
TRAJECTORY = PreferencePair(
    chosen=(turn(7, 8, 2), turn(9, 4, log_prob=-0.1)), rejected=(turn(7, 5, log_prob=-2.0),), margin=1.0, task="u"
)


@pytest.mark.parametrize("pairs", [[STEP], [TRAJECTORY], [STEP, TRAJECTORY]])
def test_pairs_come_back_as_they_were(tmp_path: Path, pairs: list[PreferencePair]) -> None:
    path = write_pairs(tmp_path / "deep" / "pairs.parquet", pairs, SOURCE)
    assert read_pairs(path, source=SOURCE) == pairs
    assert [file.name for file in path.parent.iterdir()] == ["pairs.parquet"]


def test_datasets_loads_pairs_by_trl_names(tmp_path: Path) -> None:
    from datasets import load_dataset  # which takes seconds to import

    def load(pair: PreferencePair) -> Any:
        path = tmp_path / f"{pair.task}.parquet"
        write_pairs(path, [pair], SOURCE, decode=lambda ids: " ".join(map(str, ids)))
        return load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))[0]

    texts = {"prompt": "1 7", "chosen": "8 2", "rejected": "9 2"}
    ids = {"prompt_ids": [1, 7], "chosen_ids": [8, 2], "rejected_ids": [9, 2]}
    facts = {"ref_chosen_logps": -1.5, "ref_rejected_logps": -3.25, "margin": 0.4, "task": "t", "node": 3}
    assert load(STEP) == texts | ids | facts
    trajectory = load(TRAJECTORY)
    assert (trajectory["chosen_ids"], trajectory["rejected_prompt_ids"]) == ([[8, 2], [4]], [[1, 7]])
    assert trajectory["ref_chosen_logps"] == pytest.approx(-1.6)


def test_pairs_of_another_policy_are_refused_unless_they_are_of_an_earlier_round(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.parquet", [STEP], SOURCE)
    tuned = SOURCE.model_copy(update={"model": "policy-1", "revision": "def"})
    with pytest.raises(DataError, match="revision 'abc', not 'def'"):
        read_pairs(path, source=tuned)
    assert read_pairs(path, source=tuned, replayed=True) == [STEP]
    for name in ("prompt", "tokens"):
        with pytest.raises(DataError, match=f"{name} '{getattr(SOURCE, name)}', not 'else'"):
            read_pairs(path, source=tuned.model_copy(update={name: "else"}), replayed=True)


@pytest.mark.parametrize("log_prob", [math.nan, -math.inf, 2.0])
def test_a_turn_without_a_likelihood_is_refused(tmp_path: Path, log_prob: float) -> None:
    pair = STEP.model_copy(update={"chosen": (turn(7, 8, log_prob=log_prob),)})
    with pytest.raises(DataError, match=r"task t, node 3: .* is no log-likelihood"):
        write_pairs(tmp_path / "pairs.parquet", [pair], SOURCE)
    assert not (tmp_path / "pairs.parquet").exists()


def test_what_is_no_pair_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    with pytest.raises(DataError, match="0 preference pairs"):
        write_pairs(path, [], SOURCE)
    write_pairs(tmp_path / "good.parquet", [STEP], SOURCE)
    table = parquet.read_table(tmp_path / "good.parquet")
    for says, make in (
        ("no preference pairs at", lambda: None),
        ("damaged one", lambda: path.write_bytes(b"not parquet")),
        ("ref_chosen_logps", lambda: parquet.write_table(table.drop_columns(["ref_chosen_logps"]), path)),
        (r"\(kind: Field required\)", lambda: parquet.write_table(table.replace_schema_metadata(None), path)),
        ("holds 0 preference pairs", lambda: parquet.write_table(table.slice(0, 0), path)),
    ):
        make()
        with pytest.raises(DataError, match=says):
            read_pairs(path)


def test_a_flipped_bit_gives_the_same_pairs_or_a_sentence(tmp_path: Path) -> None:
    pairs = [STEP] * 50
    path = write_pairs(tmp_path / "pairs.parquet", pairs, SOURCE)
    refused = 0
    for damaged in flips(path.read_bytes(), 200):
        path.write_bytes(damaged)
        try:
            assert read_pairs(path, source=SOURCE) == pairs
        except DataError:
            refused += 1
    assert refused > 100
