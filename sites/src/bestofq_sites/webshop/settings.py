"""Settings of WebShop."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from bestofq.envs.settings import NAME
from bestofq_sites.local_site.settings import LocalSiteSettings

Splits = Literal["product", "webshop", "agent-q"]
SearchFields = Literal["all", "upstream"]


class WebShopSettings(LocalSiteSettings):
    name: Literal["webshop"] = Field(default="webshop", description=NAME)
    data: Path | None = Field(default=None, description="folder of the real files. Default: the synthetic shop")
    splits: Splits | None = Field(
        default=None,
        description="of the real files: by product, as webshop (by goal), as agent-q. Default: the last with the full "
        "files, else the second",
    )
    search_fields: SearchFields = Field(
        default="all",
        description="what the search reads of a product: all its texts, or as upstream name, description, first bullet "
        "and options",
    )

    taught: ClassVar[str] = "pocket"
    rules: ClassVar[str] = "bestofq_sites.webshop.suite:shop"
