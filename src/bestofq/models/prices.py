"""What tokens cost: a price given outright, else the user's price file, else the paper's table, else what the package
genai-prices knows where it is installed, else unknown."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from bestofq.core.errors import BudgetError, ConfigError, DataError
from bestofq.core.frozen import FrozenModel


class Price(NamedTuple):
    """USD per million tokens; None where it is not known."""

    usd_in: float | None
    usd_out: float | None

    def usd(self, tokens_in: int, tokens_out: int) -> float | None:
        """What so many tokens cost; None, never 0, where a price is not known."""
        if self.usd_in is None or self.usd_out is None:
            return None
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / 1e6


UNKNOWN = Price(None, None)
TABLE_13: Mapping[str, Price] = {  # Best-of-Q, appendix J
    "gpt-4.1": Price(2.0, 8.0),
    "qwen2.5-vl-72b": Price(1.0, 4.0),
    "qwen2.5-vl-7b": Price(0.15, 0.6),
    "qwen2.5-vl-3b": Price(0.1, 0.4),
}


@dataclass
class Budget:
    """USD that the endpoints of one command may cost together; calls in flight when it is spent are paid too."""

    limit: float = inf
    spent: float = 0.0  # by this process
    elsewhere: float = 0.0  # by the command's other processes, as far as this one knows

    def __post_init__(self) -> None:
        if not self.limit >= 0:
            raise ConfigError(f"--budget {self.limit:g} is no limit: give USD, 0 or more")

    @property
    def total(self) -> float:
        return self.spent + self.elsewhere

    def check(self) -> None:
        """BudgetError once it is spent."""
        if self.total >= self.limit:
            raise BudgetError(
                f"the endpoints' replies cost {self.total:.4g} USD and --budget allows {self.limit:g}: run the same "
                "command again with a budget for the rest"
            )


class _Entry(FrozenModel):
    usd_in: float = Field(ge=0, allow_inf_nan=False)
    usd_out: float = Field(ge=0, allow_inf_nan=False)


_FILE = TypeAdapter(dict[str, _Entry])
_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


def price_of(model: str, file: Path | None = None) -> Price:
    """The price of a model by its name, its owner and `-instruct` left out: the file's, else Table 13's, both without a
    date where the whole name is not there (`gpt-4.1-2025-04-14`); else that of genai-prices; else unknown.

    The file is TOML, a table a model, in USD per million tokens:

        ["qwen3-vl-8b"]
        usd_in = 0.18
        usd_out = 0.7

    DataError when it cannot be read or an entry is not of that form.
    """
    known, name = {**TABLE_13, **(_read(file) if file else {})}, _plain(model)
    return known.get(name) or known.get(_DATE.sub("", name)) or _published_price(name)


def _read(path: Path) -> dict[str, Price]:
    try:
        entries = _FILE.validate_python(tomllib.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"the price file {path} cannot be read: {error}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise DataError(
            f"the price file {path}: {where}: {problem['msg']}; each model is a table with usd_in and usd_out"
        ) from error
    return {_plain(name): Price(entry.usd_in, entry.usd_out) for name, entry in entries.items()}


@lru_cache
def _published_price(name: str) -> Price:
    """Today's price of prompts of up to 1,000 tokens, by the extra `prices`; long prompts can cost more."""
    try:
        from genai_prices import Usage, calc_price
    except ModuleNotFoundError:
        return UNKNOWN
    try:
        read, written = (calc_price(Usage(**{f"{way}_tokens": 1000}), name).total_price for way in ("input", "output"))
    except LookupError:
        return UNKNOWN
    return Price(float(read) * 1000, float(written) * 1000)


def _plain(model: str) -> str:
    return model.rpartition("/")[2].lower().removesuffix("-instruct")
