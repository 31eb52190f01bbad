"""The file that generated tasks are appended to, one line each, in WebVoyager's format, and its log of refusals."""

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field

from bestofq.core.errors import DataError, InputError
from bestofq.core.frozen import FrozenModel
from bestofq.envs.webvoyager.source import Entry, load_entries

_START = b'{"web_name":"'


class Generated(Entry):
    """A task of WebVoyager's format, with where it comes from in fields that readers of the format pass over."""

    model: str = Field(description="that wrote it, by the endpoint's name")
    prompt: str = Field(description="hash of the templates")
    seeds: tuple[str, ...] = Field(description="keys of the tasks that were shown")


class Refused(FrozenModel):
    """What a model wrote and was not taken."""

    web_name: str
    ques: str = Field(description="as it was written")
    why: str
    said: str
    near: str = Field(default="", description="key of the task it is too near to")
    model: str
    prompt: str
    seeds: tuple[str, ...]


class TaskFile:
    """A jsonl file of generated tasks, held by one process; each is on the disk before the next is looked at."""

    def __init__(self, path: Path) -> None:
        """DataError when the file cannot be opened or read, InputError when another process writes it."""
        self.path = path
        self.log = path.with_name(f"{path.stem}.refused.jsonl")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._held = path.open("a+b")
        except OSError as error:
            raise DataError(f"cannot write {path} ({error.strerror}): name another file with --out") from error
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._repair()
            self.entries = load_entries(path) if path.read_bytes().strip() else []
        except BlockingIOError as error:
            self._held.close()
            raise InputError(f"another process writes {path}: wait, or name another file with --out") from error
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def of(self, site: str) -> Sequence[Entry]:
        """The tasks of a site so far, in their order."""
        return [entry for entry in self.entries if entry.web_name == site]

    def add(self, task: Generated) -> None:
        self._held.write(task.model_dump_json().encode() + b"\n")
        self._held.flush()
        os.fsync(self._held.fileno())
        self.entries.append(task)

    def refuse(self, refused: Refused) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(refused.model_dump_json() + "\n")

    def _repair(self) -> None:
        """A last line without its end was cut short by a kill, or someone edited the file and it is whole."""
        text = self.path.read_bytes()
        rest = text.rpartition(b"\n")[2]
        if not rest:
            return
        try:
            Entry.model_validate(json.loads(rest))
        except ValueError:
            if rest.startswith(_START) or _START.startswith(rest):  # else it is no file of ours: its reader says so
                self._held.truncate(len(text) - len(rest))
        else:
            self._held.write(b"\n")
            self._held.flush()
