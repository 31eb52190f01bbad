"""Files by name, in a folder and in an S3 server: written once, read whole or in part, and never another content."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from store_nouns import begin, picture, step

from bestofq.cli.store_check import check_store
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, DamageError, DataError, SetupError
from bestofq.store.files import Files, open_files
from bestofq.store.location import Location
from bestofq.store.store import Store


@pytest.fixture(params=["folder", "s3"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    return open_files(str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3"))


def test_a_file_is_read_as_it_was_written(files: Files) -> None:
    files.put("a/b.bin", b"hello world")
    assert files.get("a/b.bin") == b"hello world"
    assert (files.has("a/b.bin"), files.has("a")) == (True, False)
    with pytest.raises(FileNotFoundError):
        files.get("a/c.bin")


def test_one_that_is_there_is_the_same_one_unless_it_was_cut_short(files: Files) -> None:
    files.put("a", b"whole")
    files.put("a", b"WHOLE")  # names tell contents: as many bytes are the same ones
    assert files.get("a") == b"whole"
    files.put("b", b"who")
    files.put("b", b"whole")
    assert files.get("b") == b"whole"


def test_a_damaged_one_makes_place(files: Files) -> None:
    files.put("a", b"damage")
    files.set_aside("a")
    assert (files.has("a"), files.get("a.damaged")) == (False, b"damage")


async def test_pictures_in_s3_are_compared_with_their_hashes(
    database: str, s3: str, printed: Callable[[], str]
) -> None:
    where = Location(database, s3)
    with Store.open(where) as store:
        episode = await begin(store, steps=0)
        await store.append_step(episode, step(0, screenshot=picture()))
    with Store.open(where, read_only=True) as store:
        [one] = store.episode(episode).steps
        shot = one.observation.screenshot
        assert shot is not None
        assert store.screenshots.load(shot) == picture()
        assert check_store(where, mend=False) == 0
        name = str(store.screenshots.path(shot))
        files = open_files(s3)
        files.set_aside(name)
        with pytest.raises(DataError, match=shot.sha256[:12]):
            store.screenshots.load(shot)
        files.put(name, b"another")
        with pytest.raises(DamageError, match=shot.sha256):
            store.screenshots.load(shot)
    assert check_store(where, mend=False) == 1
    assert shot.sha256 in printed()


def test_no_bucket_is_a_sentence(s3: str) -> None:
    for address in ("s3://a b", "s3://", "elsewhere://a"):
        with pytest.raises(ConfigError, match=f"--files {address}: .*: give a folder, or s3://bucket/prefix"):
            open_files(address)
    with pytest.raises(SetupError, match="s3://absent"):
        open_files("s3://absent/prefix").put("a", b"")


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
