"""What a result depends on, and where two such descriptions differ: one mechanism for runs and for Q-functions."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from bestofq.core.frozen import FrozenModel

Endpoint = Literal["chat", "localizer_chat", "picker_chat", "judge", "embedder"]
"""What a model behind an endpoint may do in a run, by the names of the settings."""
FREE: Final = "free"
"""Marks a setting that changes how work is done, but not its result: `device: Annotated[str, FREE] = "auto"`."""


class Difference(NamedTuple):
    """A setting, by its dotted name, in which two descriptions differ; None where one of them has none."""

    name: str
    before: JsonValue
    now: JsonValue


def identity_of(settings: FrozenModel) -> dict[str, JsonValue]:
    """The settings as JSON, in nested tables, without those marked `FREE`."""
    free = {name for name, field in type(settings).model_fields.items() if FREE in field.metadata}
    kept: dict[str, JsonValue] = settings.model_dump(mode="json", exclude=free)
    inner = {name: getattr(settings, name) for name in kept}
    return kept | {name: identity_of(value) for name, value in inner.items() if isinstance(value, FrozenModel)}


def differences(before: Mapping[str, JsonValue], now: Mapping[str, JsonValue]) -> list[Difference]:
    """Where two nested tables differ, by name."""
    theirs, ours = flat(before), flat(now)
    both = (Difference(name, theirs.get(name), ours.get(name)) for name in sorted(theirs | ours))
    return [one for one in both if one.before != one.now]


def key_of(facts: Mapping[str, JsonValue | Sequence[str]]) -> str:
    """A name that is equal where all facts are, 12 hex digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def as_set(value: JsonValue) -> str:
    """A value as `--set` takes it."""
    plain = isinstance(value, str) and value != "none"
    return str(value) if plain else "none" if value is None else json.dumps(value)


def flat(tables: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The leaves of tables, by their names with dots."""
    found: dict[str, JsonValue] = {}
    for name, value in tables.items():
        inner = {f"{name}.{key}": leaf for key, leaf in flat(value).items()} if isinstance(value, dict) else None
        found |= {name: value} if inner is None else inner
    return found
