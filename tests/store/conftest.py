"""Stores of each kind: a folder with SQLite, and PostgreSQL with a folder of files."""

from pathlib import Path

import pytest

from bestofq.store.location import Location


@pytest.fixture(params=["folder", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place for a store."""
    if request.param == "folder":
        return Location(str(tmp_path / "store"))
    return Location(request.getfixturevalue("database"), str(tmp_path / "files"))
