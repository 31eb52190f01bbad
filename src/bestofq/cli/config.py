"""Settings from a TOML file and `--set a.b=c`, as a frozen config class; what does not fit is one sentence."""

import tomllib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Column, Table

from bestofq.core.errors import ConfigError
from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import as_set

Config = TypeVar("Config", bound=FrozenModel)
Tree = dict[str, Any]


def load_config(cls: type[Config], path: Path | None = None, settings: Sequence[str] = ()) -> Config:
    """The defaults of `cls`, changed by the TOML file `path`, changed by `settings`, each `name=value`, in order. Names
    of nested settings are joined by dots. A value is written as it is (`0.8`, `true`, `cuda:0`), or in TOML when it is
    a list, a table or a quoted string; `none` is None. ConfigError."""
    tree = {} if path is None else read_tree(path)
    for setting in settings:
        _put(tree, setting)
    return config_of(cls, tree)


def config_of(cls: type[Config], tree: Tree) -> Config:
    """The defaults of `cls`, changed by nested tables of settings. ConfigError."""
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_sentence(cls, error)) from error


def setting_names(cls: type[BaseModel], table: str = "NAME") -> list[str]:
    """Return the dotted names of all settings. `table` is the name of those tables that users name."""
    return [name.replace(".NAME.", f".{table}.") for name in dict.fromkeys(name for name, _, _ in setting_fields(cls))]


def setting_fields(
    cls: type[BaseModel], values: BaseModel | None = None, above: str = ""
) -> Iterator[tuple[str, FieldInfo, object]]:
    """Every setting: name, field, value in `values`. Without values, tables of several kinds give all kinds."""
    for name, field in cls.model_fields.items():
        value = getattr(values, name, None)
        below = [type(value)] if isinstance(value, BaseModel) else _configs_of(field.annotation)
        if below and get_origin(field.annotation) is dict:
            tables = value if isinstance(value, dict) else {"NAME": None}
            for key, table in tables.items():
                yield from setting_fields(below[0], table, f"{above}{name}.{key}.")
        elif not below or (values is not None and value is None):
            yield above + name, field, value
        else:
            for config in below:
                yield from setting_fields(config, value if isinstance(value, BaseModel) else None, f"{above}{name}.")


def settings_table(values: BaseModel, name: str | None = None) -> Table:
    """Return the settings of a name, or all, with value, default if it differs, and meaning. A table of another kind
    than the chosen one has its defaults. ConfigError on an unknown name."""
    others = ((setting, field, field.default) for setting, field, _ in setting_fields(type(values)))
    every = (setting_fields(type(values), values), others)
    some = ([one for one in fields if name is None or f"{one[0]}.".startswith(f"{name}.")] for fields in every)
    if not (chosen := next(filter(None, some), None)):
        raise ConfigError(_unknown(setting_names(type(values)), name or ""))
    defaults = {setting: value for setting, _, value in setting_fields(type(values), type(values)())}
    table = Table(*(Column(heading, overflow="fold") for heading in ("setting", "value", "meaning")))
    for setting, field, value in chosen:
        default = defaults.get(setting, value)
        changed = "" if value == default else f" (default: {as_set(to_jsonable_python(default))})"
        table.add_row(*map(escape, (setting, as_set(to_jsonable_python(value)) + changed, field.description or "")))
    return table


def read_tree(path: Path) -> Tree:
    """The tables of a TOML file; the text "none" is None. ConfigError."""
    try:
        tree: Tree = _to_null(tomllib.loads(path.read_text("utf-8-sig")))
        return tree
    except OSError as error:
        raise ConfigError(f"The configuration {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # a number can be too long to read
        raise ConfigError(f"The configuration {path} is not TOML: {error}.") from error


def _to_null(value: Any) -> Any:
    """TOML has no null: the text "none" means it, as after --set."""
    if isinstance(value, dict):
        return {name: _to_null(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_to_null(inner) for inner in value]
    return None if value == "none" else value


def _put(tree: Tree, setting: str) -> None:
    name, equals, text = setting.partition("=")
    *parents, last = [part.strip() for part in name.split(".")]
    if not equals or not last or not all(parents):
        raise ConfigError(f"--set takes name=value, such as iql.expectile=0.8, not {setting!r}.")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {setting}: {parent} is a value, not a table of settings.")
    tree[last] = _value(text.strip(), setting)


def _value(text: str, setting: str) -> Any:
    """Plain text is left to the field's own type: `7` is a number for a number, a string for a string."""
    if text == "none":
        return None
    if not text.startswith(("[", "{", '"', "'")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {setting}: the value is not TOML ({error}).") from error


def _sentence(cls: type[BaseModel], error: ValidationError) -> str:
    """Say the first thing that is wrong. Unknown names come first, since they may be why another is missing."""
    first = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    name, table, key = _name_setting(cls, first["loc"], unknown=first["type"] == "extra_forbidden")
    settings = setting_names(cls, key)
    match first["type"]:
        case "extra_forbidden":
            if name in settings and not table:  # `"iql.steps" = 1` in TOML
                return f"The name {name!r} is in quotes: write it without them, {name} = {first['input']!r}."
            return f"There is no {name} with {table}." if name in settings else _unknown(settings, name)
        case "missing":
            return f"The setting {name} has no default: give it by --set {name}=… or in the configuration file."
        case "value_error":  # a validator of ours: its own words
            return f"The settings{f' of {name}' if name else ''} do not fit: {first['ctx']['error']}."
    if below := [one for one in settings if one.startswith(f"{name}.")]:
        return f"{name} is a table of settings, not {first['input']!r}: set one of them, such as {below[0]}."
    messages = [one["msg"] for one in error.errors() if _name_setting(cls, one["loc"])[0].startswith(name)]
    why = ", or ".join(message[0].lower() + message[1:] for message in messages)
    return f"The setting {name} is {first['input']!r}: {why}."


def _unknown(names: Sequence[str], name: str) -> str:
    same_ending = [known for known in names if known.rpartition(".")[2] == name.rpartition(".")[2]]
    near = get_close_matches(name, same_ending, n=1, cutoff=0.0) or get_close_matches(name, names, n=1)
    known = f"the nearest is {near[0]}" if near else f"there are {', '.join(names)}"
    return f"There is no setting {name}; {known}."


def _name_setting(cls: type[BaseModel], place: Sequence[str | int], *, unknown: bool = False) -> tuple[str, str, str]:
    """Return a setting's dotted name, without pydantic's tags; the setting that says which kind its table is; the name
    that the user gave its table. `unknown`: the last part is no setting."""
    known, name, table, key = setting_names(cls), "", "", "NAME"
    for number, part in enumerate(place, 1):
        longer = f"{name}.{part}".removeprefix(".")
        if any(one.startswith(f"{name}.NAME.") for one in known):
            key = str(part)
            known, name = setting_names(cls, key), longer
        elif (unknown and number == len(place)) or any(one == longer or one.startswith(f"{longer}.") for one in known):
            name = longer
        else:
            table = f"{name}.name={part}"
    return name, table, key


def _configs_of(annotation: Any) -> list[type[BaseModel]]:
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType, dict) else (annotation,)
    kinds = (get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in options)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
