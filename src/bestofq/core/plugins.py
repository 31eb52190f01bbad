"""Parts by name: of this package, of an installed package's entry points, or `my_package.my_module:my_object`.

A package names its own in its pyproject.toml; the groups are `bestofq.suites`, `bestofq.scorers` and so on:

    [project.entry-points."bestofq.scorers"]
    cheapest = "my_package.my_module:make_scorer"
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Literal

from bestofq.core.errors import ConfigError
from bestofq.core.loading import call_object, load_object

Kind = Literal[
    "suite",
    "suite_setting",
    "scorer",
    "proposer",
    "judge",
    "learner",
    "embedder",
    "reader",
    "model",
    "q_function",
    "command",
]


SITES: Mapping[str, tuple[str, ...]] = {
    "suite": ("webshop", "booking", "quirks"),
    "model": ("pocket", "pocket-web", "pocket-agentq", "pocket-quirks"),
    "command": ("demo",),
}
"""The names that the package `bestofq-sites` gives."""


def list_plugins(kind: Kind) -> dict[str, str]:
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
