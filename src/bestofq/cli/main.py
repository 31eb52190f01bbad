"""The command line's entry. Errors are sentences; exit codes say whose fault it is."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from rich.logging import RichHandler
from rich.markup import escape

from bestofq.cli.commands import app
from bestofq.core.errors import BestOfQError, InputError
from bestofq.core.json_lines import JsonLines
from bestofq.core.secrets import HidingStream
from bestofq.core.tracing import export_spans
from bestofq.rollouts.console import console

STOPPED = 130  # as shells say of SIGINT


def run() -> NoReturn:
    try:
        exit_with(app)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # while Python ends, Ctrl-C would print tracebacks


def exit_with(command: Callable[[], object]) -> NoReturn:
    """Run a command line. Our errors, and paths that cannot be read or written (2), are printed as one sentence; so is
    that Ctrl-C stopped it (130)."""
    gc.set_threshold(50_000, 20, 20)  # imports leave no garbage: to look for it takes an eighth of a short command
    # Read when PyTorch is loaded: a thread that waits for others soon sleeps. By default it spins, and where two
    # commands share the cores each holds up the other.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    sys.stdout, sys.stderr = HidingStream(sys.stdout), HidingStream(sys.stderr)
    logging.basicConfig(
        level=logging.WARNING, handlers=[RichHandler(console=console, show_path=False)], format="%(message)s"
    )
    try:
        _check_words(sys.argv)
        export_spans()
        command()
    except BestOfQError as error:
        said, code = str(error), error.exit_code
    except ImportError as error:
        said, code = f"{error}: run `bestofq doctor`", 3
    except OSError as error:
        if error.filename is None:
            raise
        said, code = f"{error.filename}: {error.strerror}", 2
    except SystemExit as end:
        if end.code == STOPPED:
            _close_unhurt(said=not isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt))
        raise
    except KeyboardInterrupt:
        _close_unhurt(said=False)
        raise SystemExit(STOPPED) from None
    else:
        raise SystemExit(0)
    if isinstance(lines := console.file, JsonLines):
        lines.say(level="error", message=said, exit_code=code)
        raise SystemExit(code)
    console.print(f"[red]error:[/red] {escape(said)}", highlight=False)
    raise SystemExit(code)


def _close_unhurt(*, said: bool) -> None:
    """Another Ctrl-C does not stop what is still closing. Prints how to continue, unless the command has printed it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not said:
        console.print("Stopped. Run the same command again to continue.")


def _check_words(words: Sequence[str]) -> None:
    """InputError where one is no UTF-8: no store could hold it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"the argument {word!r} is not UTF-8: type it in UTF-8, or rename the file") from None


if __name__ == "__main__":
    run()
