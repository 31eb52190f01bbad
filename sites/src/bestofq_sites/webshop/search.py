"""The shop's search engine: BM25 (Robertson and Zaragoza 2009) over each product's words, by the library bm25s.

WebShop searches with Lucene's BM25 as Pyserini sets it (k1 0.9, b 0.4) and returns 50 products. So does this index.
Words are lower-cased runs of letters and digits, without Lucene's stemming and stop words.

What a product is found by is the setting `suite.search_fields`:

- `all`, the default: name, query, category, all bullets, description and option values. This makes the task easier than
  the published one. A search for a goal's instruction without options and price has its product among the first 10
  results for 85 % of the 6,910 goals, with `upstream` for 53 %. A search for all that an agent reads: 95 % and 88 %.
- `upstream`: what the published code indexes (`search_engine/convert_product_file_format.py`): name, description, the
  first bullet, option names and values.
"""

import logging
import re
import sys
from collections.abc import Iterable

import numpy as np

from bestofq.core.errors import DataError
from bestofq_sites.webshop.products import Product
from bestofq_sites.webshop.settings import SearchFields

# bm25s must find no JAX: it would start it, which takes three quarters of a GPU's memory
_jax = sys.modules.pop("jax", None)
sys.modules["jax"] = None  # type: ignore[assignment]
try:
    import bm25s
finally:
    del sys.modules["jax"]
    sys.modules.update({} if _jax is None else {"jax": _jax})

RESULTS = 50  # products a search returns at most (Yao et al. 2022)
logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for DEBUG itself
_WORD = re.compile(r"[^\W_]+")


class SearchIndex:
    """An index made once and never changed, so any number of threads may search it."""

    def __init__(self, products: Iterable[Product], fields: SearchFields = "all") -> None:
        """Raises DataError when there is no product."""
        self._products = tuple(products)
        if not self._products:
            raise DataError("a search index needs at least 1 product, got 0: check the catalogue it is made from")
        self._bm25 = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numpy")
        self._bm25.index([_words(_document(product, fields)) for product in self._products], show_progress=False)
        self._vocabulary: dict[str, int] = self._bm25.vocab_dict

    def search(self, query: str, limit: int = RESULTS) -> list[Product]:
        """The at most `limit` products that share a word with `query`, best first; equals in catalogue order."""
        tokens = [self._vocabulary[word] for word in _words(query) if word in self._vocabulary]
        if not tokens:
            return []
        scores = self._bm25.get_scores(tokens)  # [products]
        found = np.flatnonzero(scores > 0)
        best = found[np.argsort(-scores[found], kind="stable")[:limit]]
        return [self._products[index] for index in best]


def _document(product: Product, fields: SearchFields) -> str:
    values = [value for option in product.options for value in option.values]
    if fields == "upstream":
        names = [option.name for option in product.options]
        return " ".join((product.name, product.description, *product.bullets[:1], *names, *values))
    return " ".join((product.name, product.query, *product.category, *product.bullets, product.description, *values))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
