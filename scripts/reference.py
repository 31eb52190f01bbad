"""`make reference`: docs/reference.md, from what the code says of its commands, settings and public names."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import bestofq
from bestofq.cli.commands import PANELS, function_of, load_command
from bestofq.config.settings import BestOfQSettings
from bestofq.core.identity import as_set
from bestofq.store.location import Location

MADE_BY = "make reference"
_HEAD = f"""<!-- Made by `{MADE_BY}` from src/bestofq: change that, not this page. -->
# Reference

[Commands](#commands), [settings](#settings), [public names](#public-names).
"""
_SETTINGS = """## Settings

A row `expectile` of the table `iql` is the setting `iql.expectile`: `--set iql.expectile=0.8`, or `expectile` under
`[iql]` in a file for `--config`. `bestofq settings` shows the values that hold. A setting whose default is – has to be
given where its table is used.
"""
_NAMES = "## Public names\n\n`import bestofq as bq`; everything else may change.\n"
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}  # as JSON Schema says them
_TYPES = {"boolean": "true, false", "null": "none", "string": "text"}
Json = Mapping[str, Any]
Row = Sequence[str]


def reference() -> str:
    """The whole page."""
    return "\n".join([_HEAD, "## Commands\n", *_commands(), _SETTINGS, *_settings(), _NAMES, *_names()]).rstrip() + "\n"


def _commands() -> Iterator[str]:
    for panel, commands in PANELS.items():
        yield f"### {panel}\n"
        for name, (_, example) in commands.items():
            command, parameters = load_command(name), signature(function_of(name)).parameters
            rows = [_option(one, parameters[str(one.name)].annotation) for one in command.params]
            yield f"#### `bestofq {name}`\n\n{command.help}\n\n```sh\n{example}\n```\n"
            yield _table(("option", "default", "meaning"), rows)


def _option(one: Any, annotation: Any) -> Row:
    """What typer makes of a parameter, with the limits of its annotation."""
    kind, given = get_args(annotation)
    names = [*one.opts, *one.secondary_opts] if one.opts[0][0] == "-" else [given.metavar or one.name.upper()]
    value = str(one.default) if isinstance(one.default, Path | Location) else one.default
    default = "–" if one.required else "" if value in (None, False) else as_set(value)
    limits = [f"{sign} {limit:g}" for sign, limit in (("≥", given.min), ("≤", given.max)) if limit is not None]
    limits += [", ".join(get_args(kind))] if get_origin(kind) is Literal else []
    help_text = " ".join([given.help, *(f"({limit})" for limit in limits)])
    return ", ".join(f"`{name}`" for name in names), default, help_text


def _settings() -> Iterator[str]:
    """A table of every kind of settings, under all the names by which it is reached."""
    schema = BestOfQSettings.model_json_schema()
    tables: dict[str, list[str]] = {}
    for place, rows in _kinds(schema, schema["$defs"], "", {}):
        tables.setdefault(_table(("setting", "value", "default", "meaning"), rows), []).append(place)
    for table, places in tables.items():
        yield f"### {', '.join(places)}\n\n{table}"


def _kinds(kind: Json, known: Json, place: str, values: Json) -> Iterator[tuple[str, list[Row]]]:
    """The settings of a table at `place`, then those of the tables in it; `values` go before the defaults."""
    fields: dict[str, Json] = kind["properties"]
    defaults = {name: values.get(name, field.get("default", ...)) for name, field in fields.items()}
    inner = {name: [*_references(field, known)] for name, field in fields.items()}
    table = [
        (f"`{name}`", _value(field), _default(defaults[name]), field.get("description", ""))
        for name, field in fields.items()
        if not inner[name] or "anyOf" in field
    ]
    yield f"`{place}`" if place else "At the top", [*table]
    for name, below in inner.items():
        under = f"{place}.{name}".removeprefix(".")
        if "additionalProperties" in fields[name]:  # tables that users name
            yield from _kinds(below[0], known, f"{under}.NAME", {})
        elif len(below) == 1:
            yield from _kinds(below[0], known, under, defaults[name] or {})
        elif below:  # kinds of suites, the last one of the user's own: what all have
            shared = dict(_kinds(below[-1], known, under, defaults[name]))
            yield from shared.items()
            for one in below[:-1]:
                tag = one["properties"]["name"]["const"]
                for where, rows in _kinds(one, known, under, {}):
                    if own := [row for row in rows if row not in shared.get(where, ())]:
                        yield f"{where} with `{under}.name={tag}`, also", own


def _default(value: Any) -> str:
    return "–" if value is ... else as_set(value)


def _references(field: Json, known: Json) -> Iterator[Json]:
    for one in (field, *field.get("anyOf", ()), *field.get("oneOf", ()), field.get("additionalProperties")):
        if isinstance(one, dict) and "$ref" in one:
            yield known[one["$ref"].rpartition("/")[2]]


def _value(field: Json) -> str:
    """What it may be."""
    if "anyOf" in field:
        return " or ".join(map(_value, field["anyOf"]))
    if "$ref" in field:
        return "a table"
    if "enum" in field or "const" in field:
        return ", ".join(map(str, field.get("enum", [field.get("const")])))
    if field["type"] == "array":
        return f"list of {_value(field['items'])}"
    kind = field.get("format", field["type"])
    limits = [f"{sign} {field[name]:g}" for name, sign in _LIMITS.items() if name in field]
    return f"{_TYPES.get(kind, kind)} {', '.join(limits)}".strip()


def _names() -> Iterator[str]:
    for name in sorted(dir(bestofq)):
        public = getattr(bestofq, name)
        yield _entry(name, public)
        if isinstance(public, type):
            made = (way for way, value in vars(public).items() if isinstance(value, classmethod) and way[0] != "_")
            yield from (_entry(f"{name}.{way}", getattr(public, way)) for way in made)


def _entry(name: str, public: Any) -> str:
    """A name, how it is called and the first sentence of its docstring; of a union, what it is one of."""
    if kinds := get_args(public):
        return f"- `bq.{name}`: one of {', '.join(kind.__name__ for kind in get_args(kinds[0]))}."
    call = "" if getattr(public, "_is_protocol", False) else _call(public)
    first = re.split(r"(?<=\.)\s+(?=[A-Z`])|\n\n", getdoc(public) or "")[0].replace("\n", " ")
    return f"- `bq.{name}{call}`: {first}"


def _call(public: Any) -> str:
    """Parameters without their types; `...` for a default that is neither text nor a number."""
    taken, none = signature(public), Parameter.empty
    plain = (str, int, float, tuple, type(None), type(none))  # `none` itself is a class
    defaults = {name: one.default for name, one in taken.parameters.items()}
    shown = [
        one.replace(annotation=none, default=defaults[name] if isinstance(defaults[name], plain) else ...)
        for name, one in taken.parameters.items()
    ]
    return str(taken.replace(parameters=shown, return_annotation=none)).replace("Ellipsis", "…")


def _table(heads: Row, rows: Sequence[Row]) -> str:
    """A Markdown table; its cells are escaped."""
    cells = [[cell.replace("|", "\\|").replace("*", "\\*") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), "utf-8")
