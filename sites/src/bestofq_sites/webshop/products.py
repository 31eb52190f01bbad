"""One record format for both sources of WebShop: the synthetic catalogue and the real files (Yao et al. 2022)."""

from collections.abc import Mapping

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq_sites.local_site import rules


class Option(FrozenModel):
    """A choice the buyer makes: `color` with `red`, `blue`. Lower case."""

    name: str
    values: tuple[str, ...]


class Product(FrozenModel):
    id: str = Field(description="ASIN in the real files")
    name: str = Field(description="title, as shown")
    query: str = Field(description="the search phrase the product was found by; its type")
    category: tuple[str, ...] = Field(description="levels, general to special")
    price: float = Field(description="USD, as shown and as compared with a goal's limit")
    description: str = ""
    bullets: tuple[str, ...] = ()
    reviews: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    published_values: tuple[tuple[str, str], ...] = Field(
        default=(), description="option values whose white space is not a single blank: as shown, as in the file"
    )
    attributes: tuple[str, ...] = ()
    instruction: str | None = Field(default=None, description="without options and price")
    instruction_attributes: tuple[str, ...] = ()


class Instruction(FrozenModel, extra="ignore"):
    """What a person wrote for a product; its fields have the file's names."""

    instruction: str = Field(description="without a price")
    instruction_attributes: tuple[str, ...]
    instruction_options: tuple[str, ...] = Field(description="values, without their names")


class ShopGoal(rules.Goal):
    product_id: str
    attributes: tuple[str, ...] = Field(description="U_att")
    options: tuple[tuple[str, str], ...] = Field(description="U_opt, (name, value) pairs; a person's have the name ''")
    price_limit: float = Field(description="u_price, USD")


Catalogue = Mapping[str, Product]
"""Products by their ids, in a fixed order."""
