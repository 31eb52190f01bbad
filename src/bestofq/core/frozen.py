"""The base of every noun: immutable, keyword-only, typed, strict about unknown fields."""

from pydantic import BaseModel, ConfigDict, ValidationError


class FrozenModel(BaseModel):
    """A frozen value; equal when its fields are equal, stored and parsed as JSON, where NaN and ±∞ are texts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings"
    )


def reason_of(error: Exception) -> str:
    """What is wrong with data that cannot be read, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    said = f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
    return f"it has another form ({said})" if isinstance(error, TypeError | AttributeError) else said
