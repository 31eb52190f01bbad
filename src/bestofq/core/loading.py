"""Objects by name: a user's `my_package.my_module:my_object`, a part of an installed package, or an optional package.

A package names its parts in its pyproject.toml; the groups are `bestofq.suites`, `bestofq.scorers` and so on:

    [project.entry-points."bestofq.scorers"]
    cheapest = "my_package.my_module:make_scorer"
"""

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from bestofq.core.errors import ConfigError, SetupError

T = TypeVar("T")
Kind = Literal[
    "suite", "suite_setting", "scorer", "proposer", "judge", "embedder", "reader", "model", "q_function", "command"
]
SITES: Mapping[str, tuple[str, ...]] = {  # the names that the package `bestofq-sites` gives
    "suite": ("webshop", "booking", "quirks"),
    "model": ("pocket", "pocket-web", "pocket-agentq", "pocket-quirks"),
    "command": ("demo",),
}


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
    "llguidance": "local",
    "obstore": "postgres",
    "openenv": "openenv",
    "psycopg": "postgres",
    "tensorboard": "tensorboard",
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


@cache  # each reading of all installed packages takes 20 ms
def list_plugins(kind: Kind) -> Mapping[str, str]:
    """What installed packages offer of a kind: `module:object` by name."""
    return {one.name: one.value for one in entry_points(group=f"bestofq.{kind}s")}


def object_name(kind: Kind, name: str, built_in: Iterable[str] = ()) -> str:
    """`module:object` of a part that is not built in. ConfigError, with the known names, where there is none."""
    if ":" in name:
        return name
    found = list_plugins(kind)
    if name not in found and name in SITES.get(kind, ()):
        raise ConfigError(f"the {kind} {name} is in a package of its own: pip install bestofq-sites")
    if name not in found:
        known = "".join(f"{one}, " for one in (*built_in, *sorted(found)))
        raise ConfigError(
            f"there is no {kind} {name!r}: it is {known and f'one of {known}or '}my_package.my_module:name; a "
            "name that your own package gives is known once that is installed (pip install -e FOLDER)"
        )
    return found[name]


def load_part(kind: Kind, name: str) -> object:
    """What makes the part of that name. ConfigError as `object_name` and `load_object`."""
    return load_object(object_name(kind, name))


def make_part(kind: Kind, name: str, wanted: type[Any], *arguments: object, built_in: Iterable[str] = ()) -> Any:
    """What the part of that name makes of the arguments. ConfigError as `object_name`, as `call_object`, and where
    it is no `wanted`."""
    made = call_object(object_name(kind, name, built_in), *arguments)
    if not isinstance(made, wanted):
        raise ConfigError(f"{name} made {made!r}, which is no {kind} ({wanted.__module__}.{wanted.__qualname__})")
    return made
