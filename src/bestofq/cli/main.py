"""The command line's entry. Errors are sentences; exit codes say whose fault it is."""

import gc
import importlib
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

from bestofq.cli.doctor import doctor
from bestofq.core.errors import BestOfQError


def run() -> NoReturn:
    """The console script."""
    if sys.argv[1:] == ["doctor"]:  # must work where the packages that the other commands need are missing
        raise SystemExit(doctor(Console()))
    exit_with(_chosen)


def exit_with(command: Callable[[], object]) -> NoReturn:
    """Run a command line: exit code 0, or that of one of our errors, told in one sentence."""
    console = Console()
    logging.basicConfig(
        level=logging.WARNING, handlers=[RichHandler(console=console, show_path=False)], format="%(message)s"
    )
    try:
        command()
    except BestOfQError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", highlight=False)
        raise SystemExit(error.exit_code) from None
    except ImportError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}: run `bestofq doctor`", highlight=False)
        raise SystemExit(3) from None
    except KeyboardInterrupt:
        console.print("stopped; the same command again goes on from here")
        raise SystemExit(130) from None
    raise SystemExit(0)


def _chosen() -> None:
    if sys.argv[1:2] == ["view"]:  # is there at once
        importlib.import_module("bestofq.cli.viewing").alone(sys.argv[2:])
    _commands().app()


def _commands() -> ModuleType:
    """The commands. Their imports leave no garbage: to look for some again and again is a fifth of the start."""
    gc.disable()
    try:
        return importlib.import_module("bestofq.cli.commands")
    finally:
        gc.enable()


if __name__ == "__main__":
    run()
