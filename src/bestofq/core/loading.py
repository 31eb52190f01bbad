"""What is given by name: a user's object as `my_package.my_module:my_object`, the settings of a call, and packages that
only some commands need, imported here and nowhere else."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bestofq.core.errors import ConfigError, SetupError

T = TypeVar("T")


def load_object(name: str) -> object:
    """The object of that name, looked for in the current folder too. ConfigError where it cannot be imported."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise ConfigError(f"{name!r} cannot be loaded: the module {module} has no {attribute!r}") from error
    except Exception as error:  # whatever a module of the user's does when it is imported
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{name!r} cannot be loaded from {here}: importing {module} raised {said}") from error


def call_object(name: str, *arguments: object) -> Any:
    """What that object gives for the arguments. ConfigError as `load_object`, and where it does not take them."""
    make = load_object(name)
    try:
        inspect.signature(make).bind(*arguments)  # type: ignore[arg-type]
    except TypeError as error:
        kinds = ", ".join(type(argument).__name__ for argument in arguments)
        raise ConfigError(f"{name} is no function or class that takes ({kinds}): {error}") from error
    return make(*arguments)  # type: ignore[operator]


EXTRAS = {
    "accelerate": "agentq",
    "peft": "agentq",
    "pyarrow": "export",
    "gguf": "local",
    "llguidance": "local",
    "obstore": "cluster",
    "openenv": "openenv",
    "psycopg": "cluster",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
}


def extra(module: str) -> Any:
    """An optional package, or a module such as `pyarrow.parquet`. SetupError with what installs it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise SetupError(
            f"The package {package} is not installed; install it with `pip install 'bestofq[{EXTRAS[package]}]'`."
        ) from error


def validate_settings(kind: TypeAdapter[T], settings: Mapping[str, object]) -> T:
    """The settings as their own kind. ConfigError where one is unknown or impossible."""
    try:
        return kind.validate_python(settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, wrong['loc']))}={wrong['input']!r}: {wrong['msg']}") from error
