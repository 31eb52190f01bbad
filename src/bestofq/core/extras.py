"""Packages that only some commands need, imported here and nowhere else, when they are needed."""

from importlib import import_module
from typing import Any

from bestofq.core.errors import SetupError

EXTRAS = {"accelerate": "agentq", "peft": "agentq", "pyarrow": "agentq"}


def extra(module: str) -> Any:
    """An optional package, or a module such as `pyarrow.parquet`. SetupError with the command that installs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise SetupError(
            f"The package {package} is not installed; install it with `pip install 'bestofq[{EXTRAS[package]}]'`."
        ) from error
