"""The command line's entry. Errors are sentences; exit codes say whose fault it is."""

import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from rich.logging import RichHandler
from rich.markup import escape

from bestofq.cli.commands import app
from bestofq.core.errors import BestOfQError, InputError
from bestofq.core.secrets import HidingStream
from bestofq.rollouts.console import console

STOPPED = 130  # as shells say of SIGINT


def run() -> NoReturn:
    try:
        exit_with(app)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # while Python ends, Ctrl-C would print tracebacks


def exit_with(command: Callable[[], object]) -> NoReturn:
    """Run a command line, and exit. Print our errors, and paths that cannot be read or written (2), as one sentence.
    After Ctrl-C print how to continue, and exit with 130."""
    gc.set_threshold(50_000, 20, 20)  # imports leave no garbage: to look for it takes an eighth of a short command
    # Read when PyTorch is loaded: a thread that waits for others soon sleeps. By default it spins, and where two
    # commands share the cores each holds up the other.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    sys.stdout, sys.stderr = HidingStream(sys.stdout), HidingStream(sys.stderr)
    handler = RichHandler(console=console, show_path=False)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], format="%(message)s")
    try:
        if odd := [word for word in sys.argv if word != word.encode(errors="ignore").decode()]:
            raise InputError(f"the argument {odd[0]!r} is not UTF-8: type it in UTF-8, or rename the file")
        command()
    except BestOfQError as error:
        message, code = str(error), error.exit_code
    except ImportError as error:
        message, code = f"{error}: run `bestofq doctor`", 3
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        message, code = (f"{error.filename}: {error.strerror}", 2) if error.filename else (str(error.strerror), 3)
    except (SystemExit, KeyboardInterrupt) as end:
        if isinstance(end, SystemExit) and end.code != STOPPED:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C does not stop what is still closing
        # a command that has caught Ctrl-C itself has said how to continue
        cause = getattr(end.__context__, "__cause__", None)
        if isinstance(end, KeyboardInterrupt) or isinstance(cause, KeyboardInterrupt):
            console.print("Stopped. Run the same command again to continue.")
        raise SystemExit(STOPPED) from None
    else:
        raise SystemExit(0)
    console.print(f"[red]error:[/red] {escape(message)}", highlight=False)
    raise SystemExit(code)


if __name__ == "__main__":
    run()
