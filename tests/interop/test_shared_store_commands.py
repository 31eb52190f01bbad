"""Commands on a store in PostgreSQL with its files elsewhere: the same as on a folder."""

import re
from pathlib import Path

import pytest
from logs import bestofq, shop_episode, written

from bestofq.core.errors import ConfigError, SetupError


def test_import_report_export_and_doctor(database: str, tmp_path: Path) -> None:
    log = written(tmp_path / "shop.jsonl", shop_episode(0), shop_episode(1))
    where = ("--store", database, "--files", tmp_path / "files")
    said = bestofq("import", "jsonl", log, *where)
    assert f"bestofq view {database} --files {tmp_path / 'files'}" in said.replace("\n", "")
    bestofq("report", *where, "--json", tmp_path / "tables", "--html", tmp_path / "html")
    assert list((tmp_path / "tables").glob("*.json"))
    bestofq(
        "export", "conversations", database, "--files", tmp_path / "files", "--out", tmp_path / "c.jsonl", "--failures"
    )
    assert "kettle" in (tmp_path / "c.jsonl").read_text("utf-8").lower()
    assert "All is as it was written" in bestofq("doctor", *where)


def test_where_a_store_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    log = written(tmp_path / "shop.jsonl", shop_episode(0))
    for store, files, error in (
        (tmp_path, tmp_path, ConfigError),
        ("mysql://host/db", tmp_path, ConfigError),
        ("postgresql+psycopg://127.0.0.1:1/nobody", tmp_path, SetupError),
    ):
        with pytest.raises(error, match=re.escape(str(store))):
            bestofq("import", "jsonl", log, "--store", store, "--files", files)
