"""The base of every noun: immutable, keyword-only, typed, strict about unknown fields."""

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A frozen value; equal when its fields are equal, stored and parsed as JSON, where NaN and ±∞ are texts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings"
    )
