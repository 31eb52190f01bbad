"""The base of every noun: immutable, keyword-only, typed, strict about unknown fields."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from bestofq.core.errors import ConfigError

T = TypeVar("T")


class Noun(BaseModel):
    """A frozen value; equal when its fields are equal, stored and parsed as JSON, where NaN and ±∞ are texts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings"
    )


def checked(kind: TypeAdapter[T], settings: Mapping[str, object]) -> T:
    """The settings as their own kind. ConfigError where one is unknown or impossible."""
    try:
        return kind.validate_python(settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, wrong['loc']))}={wrong['input']!r}: {wrong['msg']}") from error
