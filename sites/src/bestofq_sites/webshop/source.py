"""WebShop's real files (Yao et al. 2022), read from a folder the user gives.

The records become what the published code makes of them: option names and values in lower case, `/` in a value
written ` | `, a missing price 100 dollars, a second product of the same id dropped. A value listed twice stays twice,
because each makes a goal. Two deviations: a range of prices is drawn from `seed`, and runs of white space become one
blank, as a browser shows them (the reward compares `Product.published_values`, as the file writes them).
"""

import random
import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from bestofq.core.errors import DataError
from bestofq_sites.webshop.products import Catalogue, Instruction, Option, Product

PRODUCTS = "items_shuffle_1000.json"
ANNOTATIONS = "items_ins_v2_1000.json"
ALL_PRODUCTS = "items_shuffle.json"
ALL_ANNOTATIONS = "items_ins_v2.json"
WRITTEN = "items_human_ins.json"

_DEFAULT_PRICE = 100.0  # USD
_LONGEST_ID = 10  # upstream leaves out products with a longer one, and those named `nan`
_Data = TypeVar("_Data")


class _Value(BaseModel):
    value: str


class _Record(BaseModel):
    """A product as its file has it; other fields are ignored."""

    id: str = Field(alias="asin")
    name: str
    query: str
    product_category: str = Field(description="levels joined by ›")
    pricing: str | None = Field(default=None, description="`$12.5`, or `$10.0$20.0` for a range")
    full_description: str | None = None
    small_description: list[str] | str = ""
    customization_options: dict[str, list[_Value] | None] | str | None = None


class _Annotation(BaseModel):
    attributes: list[str] = []
    instruction: str | None = None
    instruction_attributes: list[str] = []


def load_catalogue(folder: Path, *, seed: int) -> Catalogue:
    """The first 1,000 products with their attributes and instructions, or those of the full files where the folder has
    them; in the file's order. A product of the full files without an annotation has no attributes.

    DataError when a file is missing, malformed or does not belong to the other.
    """
    full = is_full(folder)
    file, notes = (folder / ALL_PRODUCTS, ALL_ANNOTATIONS) if full else (folder / PRODUCTS, ANNOTATIONS)
    records = _read(file, list[_Record])
    annotations = _read(folder / notes, dict[str, _Annotation])
    products: dict[str, Product] = {}
    for record in records:
        if record.id == "nan" or len(record.id) > _LONGEST_ID or record.id in products:
            continue
        annotation = annotations.get(record.id, _Annotation() if full else None)
        if annotation is None:
            raise DataError(
                f"{folder / notes} has no entry for the product {record.id} of {file.name}: "
                "the two files must come from the same download"
            )
        products[record.id] = _product(record, annotation, file, seed)
    if not products:
        raise DataError(f"{file} holds 0 products, at least 1 is needed: download the file again")
    return products


def is_full(folder: Path) -> bool:
    """Whether the folder holds WebShop's full files, with what people wrote for its products."""
    return (folder / ALL_PRODUCTS).exists()


def load_written(folder: Path) -> dict[str, list[Instruction]]:
    """What people wrote for the products of the full files, by product: `items_human_ins.json`, in its order."""
    return _read(folder / WRITTEN, dict[str, list[Instruction]])


def _read(path: Path, kind: type[_Data]) -> _Data:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read WebShop's file {path} ({error.strerror}): give the folder that holds {PRODUCTS} and "
            f"{ANNOTATIONS} (`./setup.sh -d small` in a clone of princeton-nlp/WebShop downloads them), or the full "
            f"{ALL_PRODUCTS}, {ALL_ANNOTATIONS} and {WRITTEN} (`-d all`)"
        ) from error
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise DataError(
            f"{path} is not a WebShop file ({error.error_count()} errors, the first at {place}: {first['msg']}): "
            "download it again"
        ) from error


def _product(record: _Record, annotation: _Annotation, path: Path, seed: int) -> Product:
    bullets, options = record.small_description, _options(record)
    shown = {_clean(name).lower(): tuple(map(_clean, values)) for name, values in options.items()}
    return Product(
        id=record.id,
        name=_clean(record.name),
        query=_clean(record.query).lower(),
        category=tuple(filter(None, map(_clean, record.product_category.split("›")))),
        price=_price(record, path, seed),
        description=_clean(record.full_description or ""),
        bullets=tuple(filter(None, map(_clean, [bullets] if isinstance(bullets, str) else bullets))),
        options=tuple(Option(name=name, values=values) for name, values in shown.items()),
        published_values=tuple((_clean(v), v) for values in options.values() for v in values if _clean(v) != v),
        **annotation.model_dump(),
    )


def _price(record: _Record, path: Path, seed: int) -> float:
    if not record.pricing:
        return _DEFAULT_PRICE
    try:
        bounds = [float(re.sub(r"[^\d.]", "", amount)) for amount in record.pricing.split("$")[1:3]]
    except ValueError:
        bounds = []
    match bounds:
        case [price]:
            return price
        case [low, high]:
            return random.Random(f"price-{seed}-{record.id}").uniform(low, high)
        case _:
            raise DataError(
                f"{path}: the product {record.id} has the price {record.pricing!r}, "
                "which is neither `$12.5` nor `$10.0$20.0`: correct it or download the file again"
            )


def _options(record: _Record) -> dict[str, list[str]]:
    """Its options' values as the published code has them, by name as in the file."""
    if not isinstance(record.customization_options, dict):
        return {}
    return {
        name: [entry.value.strip().replace("/", " | ").lower() for entry in entries]
        for name, entries in record.customization_options.items()
        if entries is not None
    }


def _clean(text: str) -> str:
    return " ".join(text.split())
