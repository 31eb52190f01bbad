import numpy as np
import pytest

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import DataError
from bestofq.store.location import Location
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
