from hashlib import sha256

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from sqlalchemy import func, select

from bestofq.cli.store_check import check_store
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import DamageError, DataError
from bestofq.store import vectors
from bestofq.store.location import Location
from bestofq.store.schema import SHARDS, VECTORS
from bestofq.store.store import Store

SPEC = EmbedSpec(model="pocket", revision="1", dim=4)


def test_vectors_come_back_bit_for_bit_and_per_spec(where: Location) -> None:
    rng = np.random.default_rng(0)
    put = {EmbedItem(text=str(n)).key: rng.normal(size=4).astype(np.float32) for n in range(1200)}
    with Store.open(where) as store:
        cache = store.vectors(SPEC)
        cache.put_many(put)
        cache.put_many(dict(list(put.items())[:3]))
    with Store.open(where, read_only=True) as store:
        found = store.vectors(SPEC).get_many([*put, "unknown"])
        assert found.keys() == put.keys()
        assert all(np.array_equal(found[key], put[key]) and found[key].dtype == np.float32 for key in put)
        assert store.vectors(SPEC.model_copy(update={"layer": -2})).get_many(list(put)) == {}
        with pytest.raises(DataError, match="read-only"):
            store.vectors(SPEC).put_many(put)


def filled(where: Location, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A store of 700 vectors in shards of 300, and 5 more."""
    monkeypatch.setattr(vectors, "ROWS", 700)
    monkeypatch.setattr(vectors, "A_SHARD", 300)
    rng = np.random.default_rng(0)
    put = {EmbedItem(text=str(n)).key: rng.normal(size=4).astype(np.float32) for n in range(705)}
    with Store.open(where) as store:
        cache, items = store.vectors(SPEC), list(put.items())
        for start in range(0, 700, 100):
            cache.put_many(dict(items[start : start + 100]))
        cache.put_many(dict(items[700:]))
    return put


def test_many_vectors_leave_the_database_for_shards(where: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    put = filled(where, monkeypatch)
    files = sorted((where.folder / "vectors").rglob("*.safetensors"))
    assert [sha256(file.read_bytes()).hexdigest() for file in files] == [file.stem for file in files]
    assert sorted(load_file(file)["vectors"].shape[0] for file in files) == [100, 300, 300]
    with Store.open(where, read_only=True) as store:
        found = store.vectors(SPEC).get_many([*put, "unknown"])
        assert found.keys() == put.keys()
        assert all(np.array_equal(found[key], put[key]) for key in put)
        with store._engine.connect() as connection:
            counts = [connection.scalar(select(func.count()).select_from(table)) for table in (VECTORS, SHARDS)]
        assert counts == [5, 700]


def test_a_damaged_shard_is_found_and_its_vectors_are_made_again(
    where: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = filled(where, monkeypatch)
    shard = min((where.folder / "vectors").rglob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with Store.open(where, read_only=True) as store, pytest.raises(DamageError, match=shard.name):
        store.vectors(SPEC).get_many(list(put))
    assert check_store(Console(record=True), where, mend=False) == 1
    if where.is_folder:
        assert check_store(Console(record=True), where, mend=True) == 0
        with Store.open(where) as store:
            cache = store.vectors(SPEC)
            cache.put_many({key: put[key] for key in put.keys() - cache.get_many(list(put)).keys()})
            cache.seal()
            assert cache.get_many(list(put)).keys() == put.keys()


def test_the_keys_of_vectors_that_were_kept_stay_valid() -> None:
    """The shipped Q-function's spec, as it was hashed before there were pictures."""
    before = EmbedSpec(
        model="pocket",
        revision="1e903de1396ed2ae",
        prompt="9d56423bed1d1c22",
        pooling="last",
        context="review",
        dim=256,
    )
    assert before.hash == "2f70889bc2c7be04"
    assert before.model_copy(update={"pixels_least": 3136}).hash != before.hash
    assert before.model_copy(update={"tokens": "own"}).hash != before.hash


@pytest.mark.parametrize(
    ("vector", "says"), [(np.zeros(5), r"shape \(5,\)"), (np.array([0, 1, np.nan, 0]), "NaN or infinity")]
)
def test_a_vector_that_cannot_be_right_is_refused(where: Location, vector: np.ndarray, says: str) -> None:
    with Store.open(where) as store, pytest.raises(DataError, match=says):
        store.vectors(SPEC).put_many({"k": vector.astype(np.float32)})
