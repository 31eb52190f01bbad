"""A PostgreSQL of our own, as Debian installs it, on loopback, in a folder that is removed again."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

NOBODY = "nobody"  # PostgreSQL refuses to be run by root


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, of the newest version here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Server(NamedTuple):
    """A running server; `address`: of its database."""

    address: str
    start: Callable[[], None]
    stop: Callable[[str], None]  # by a mode of `pg_ctl`: fast, or immediate, after which it recovers


@contextmanager
def postgresql(*options: str) -> Iterator[str]:
    """The address of a running server's database. `options`: of the server, such as `fsync=off`."""
    with a_server(*options) as server:
        yield server.address


@contextmanager
def a_server(*options: str) -> Iterator[Server]:
    bin_, user = programs(), NOBODY if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    assert bin_ is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(tempfile.mkdtemp(prefix="bestofq-pg-"))
    data = root / "data"

    def run(program: str, *words: str) -> None:
        as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        command = [str(bin_ / program), "-D", str(data), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, **as_user)
        assert done.returncode == 0, done.stdout + done.stderr

    if os.getuid() == 0:
        shutil.chown(root, user)
    try:
        run("initdb", "-U", "bestofq", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        listen = ("listen_addresses=127.0.0.1", f"port={port}", f"unix_socket_directories={root}", *options)
        words = " ".join(f"-c {one}" for one in listen)
        start = partial(run, "pg_ctl", "-w", "-l", str(root / "log"), "-o", words, "start")
        start()
        try:
            address = f"postgresql+psycopg://bestofq@127.0.0.1:{port}/postgres"
            yield Server(address, start, lambda mode: run("pg_ctl", "-m", mode, "stop"))
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(root)
