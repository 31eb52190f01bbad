"""Stores of each kind: a folder with SQLite, and PostgreSQL with a folder of files."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from postgres import postgresql, programs
from sqlalchemy import create_engine, text

from bestofq.store.location import Location

_STORES = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    if programs() is None:
        if os.environ.get("CI"):
            pytest.fail("CI lacks PostgreSQL: apt-get install postgresql")
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    with postgresql("fsync=off", "full_page_writes=off") as address:
        yield address


@pytest.fixture
def database(server: str) -> str:
    """The address of a new store: a schema of its own."""
    name = f"store{next(_STORES)}"
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{server}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["folder", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place for a store."""
    if request.param == "folder":
        return Location(str(tmp_path / "store"))
    return Location(request.getfixturevalue("database"), str(tmp_path / "files"))
