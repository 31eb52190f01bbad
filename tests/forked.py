"""Processes that need import nothing: forks of one that was forked from pytest's own before the first test, when all is
imported and no thread, no loop and no browser has begun. The workers of pytest-xdist are such forks, too."""

import atexit
import gc
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from execnet.gateway_base import ExecModel, Popen2IO


class Forked:
    """`program(*arguments)` in a process of its own, which says to `log` what it says."""

    _server: socket.socket

    def __init__(self, log: Path, program: Callable[..., object], *arguments: Any, **environment: str) -> None:
        ours, theirs = socket.socketpair()
        self._log, self._told, self._status = log, ours.makefile(), None
        with ours, theirs, log.open("ab") as out:
            asked = pickle.dumps((program, arguments, os.environ | environment, Path.cwd()))
            socket.send_fds(self._server, [asked], [theirs.fileno(), out.fileno()])
        self.pid = int(self._told.readline())

    def wait(self, seconds: float | None = None) -> int:
        """How it ended: its exit code, or the signal's number below 0."""
        if self._status is None:
            assert select.select([self._told], [], [], seconds)[0], f"it still runs after {seconds} s: {self.said}"
            self._status = int(self._told.readline())
            self._told.close()
        return self._status

    def kill(self) -> int:
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    @property
    def runs(self) -> bool:
        return self._status is None and not select.select([self._told], [], [], 0)[0]

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")


def launch_forks(launch: Callable[[list[str]], object], words: list[str]) -> None:
    """What a launcher of PyTorch's does with these words, but that its processes are forks of this one."""
    import torch.distributed.run as torchrun

    elastic_launch = torchrun.elastic_launch

    def script(name: str, *arguments: str) -> None:
        if name == "-m":
            sys.argv = [*arguments]
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [name, *arguments]
            runpy.run_path(name, run_name="__main__")

    def forking(config: Any, entrypoint: str) -> Callable[..., object]:
        config.start_method = "fork"
        return lambda *command: elastic_launch(config, script)(*command[1:])  # without Python's -u

    torchrun.elastic_launch = forking
    launch(words)


class ForkedWorker(Popen2IO):
    """A worker of pytest-xdist, for execnet's Popen2IOMaster: a fork instead of a Python that imports all again."""

    def __init__(self, command: Sequence[str], execmodel: ExecModel) -> None:
        with TemporaryDirectory() as folder:
            there, back = (Path(folder, name) for name in ("there", "back"))
            for pipe in (there, back):
                os.mkfifo(pipe)
            self._process = Forked(Path("/dev/stderr"), _run_python, command[-1], there, back)
            outfile = os.fdopen(os.open(there, os.O_WRONLY), "wb")
            infile = os.fdopen(os.open(back, os.O_RDONLY), "rb")
        super().__init__(outfile, infile, execmodel)

    def wait(self) -> int:
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()


def _run_python(code: str, stdin: Path, stdout: Path) -> None:
    """What `python -c CODE` does, between two pipes."""
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    os.dup2(os.open(stdout, os.O_WRONLY), 1)
    sys.stdin = os.fdopen(0, closefd=False)
    try:
        exec(code, {})
    finally:
        atexit._run_exitfuncs()


@contextmanager
def forking(prepare: Callable[[], object] = lambda: None) -> Iterator[None]:
    """The process that they are forks of. It prepares itself first, by imports."""
    Forked._server, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with Forked._server, asked, warnings.catch_warnings(action="ignore"):
        if (server := os.fork()) == 0:
            Forked._server.close()
            gc.disable()  # imports leave no garbage
            prepare()
            gc.enable()
            _serve(asked)
        asked.close()
        yield
        Forked._server.shutdown(socket.SHUT_WR)
        os.waitpid(server, 0)


def _serve(asked: socket.socket) -> None:
    while True:
        question, fds, *_ = socket.recv_fds(asked, 1 << 20, 2)
        if not question or os.fork() == 0:
            break
        for fd in fds:
            os.close(fd)
        _reap()
    if question:  # this process is the parent of the one that is asked for
        told, out = fds
        if (child := os.fork()) == 0:
            os.close(told)
            _run(out, *pickle.loads(question))
        os.write(told, f"{child}\n".encode())
        os.write(told, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    _reap()
    os._exit(0)


def _reap() -> None:
    """Those that have ended: their time counts as their parent's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(
    out: int, program: Callable[..., object], arguments: tuple[Any, ...], environment: dict[str, str], folder: Path
) -> None:
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    status = 1
    try:
        program(*arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)
