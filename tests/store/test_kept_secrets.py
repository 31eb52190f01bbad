"""A known secret is in no byte of a store, packed or not, whatever part of an episode it came in."""

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from store_nouns import PROVENANCE, page, step, task

from bestofq.core import secrets
from bestofq.core.decision import Verdict
from bestofq.store.codec import _WORDS
from bestofq.store.location import Location
from bestofq.store.store import Store

KEY, PASSWORD = 'sk-"never"/écrit', "hunter2-or-longer"
ADDRESS = f"http://ann:{PASSWORD}@a.test/v1"
FORMS = (KEY, json.dumps(KEY)[1:-1], json.dumps(KEY, ensure_ascii=False)[1:-1], PASSWORD)


@pytest.fixture(autouse=True)
def two_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", {})
    secrets.keep_secret(KEY, "[KEY]")
    secrets.keep_secrets_of(ADDRESS)


def everything(folder: Path) -> str:
    """All bytes of all files, and all that the database has packed."""
    raw = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    with closing(sqlite3.connect(folder / "store.sqlite")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = [value for name in tables for row in database.execute(f"SELECT * FROM {name}") for value in row]
    for value in values:
        try:
            raw += zlib.decompressobj(zdict=_WORDS).decompress(value) if isinstance(value, bytes) else b""
        except zlib.error:
            raw += value
    return raw.decode("utf-8", "replace") + repr(values)


@pytest.mark.parametrize("start", ["ann@db.test/bq?", "db.test/bq?user=ann&", "ann:a-long-word@db.test/bq?"])
def test_a_password_in_a_database_s_query_is_a_secret_and_its_user_is_none(start: str) -> None:
    address = f"postgresql+psycopg://{start}password=another-{PASSWORD}"
    place = Location.of(address, "files")
    assert place.name == address
    said = secrets.hide(f"--store {place}, of ann@db.test")
    assert "another" not in said
    assert "a-long-word" not in said
    assert said.endswith("password=*** --files files, of ann@db.test")


async def test_no_byte_holds_one(tmp_path: Path) -> None:
    said = f"echo {KEY} {json.dumps(KEY)} {ADDRESS}"
    seen = page(1).model_copy(update={"text": said, "url": f"http://a.test/?q={PASSWORD}", "notices": (said,)})
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {"chat": {"base_url": ADDRESS}}, PROVENANCE.model_copy(update={"command": said}))
        await store.begin_run("r", {"chat": {"base_url": ADDRESS}}, PROVENANCE)  # the same run: nothing differs
        made = PROVENANCE.model_copy(update={"command": said})
        episode = await store.begin_episode("r", "prompting", task("t").model_copy(update={"goal": said}), 0, made)
        await store.append_step(episode, step(0, last=True).model_copy(update={"observation": seen}))
        await store.finish_episode(episode, Verdict(reward=0.0, outcome="failure", reason=said), seen)
        [read] = store.episodes(run="r")
    kept = everything(tmp_path)
    assert [form for form in FORMS if form in kept] == []
    assert read.steps[0].observation.text == 'echo [KEY] "[KEY]" http://ann:***@a.test/v1'
