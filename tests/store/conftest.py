"""Stores of each kind: a folder with SQLite, and PostgreSQL with a folder of files."""

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bestofq.store.location import Location


@pytest.fixture(params=["folder", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place for a store."""
    if request.param == "folder":
        return Location(str(tmp_path / "store"))
    return Location(request.getfixturevalue("database"), str(tmp_path / "files"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on loopback."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """An empty prefix of a bucket there."""
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {"AWS_ENDPOINT_URL": s3_server, **keys}.items():
        monkeypatch.setenv(name, value)
    httpx.put(f"{s3_server}/bucket")
    return f"s3://bucket/{request.node.name.translate(str.maketrans('[]', '--'))}"
