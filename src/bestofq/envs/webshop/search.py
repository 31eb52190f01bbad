"""The shop's search engine: BM25 (Robertson and Zaragoza 2009) over each product's words, by the library bm25s.

WebShop searches with Lucene's BM25 as Pyserini sets it (k1 0.9, b 0.4) and returns 50 products. So does this index.
Two deviations: words are lower-cased runs of letters and digits, without Lucene's stemming and stop words; and the
document is name, query, category, all bullets, description and option values, where upstream's has title, description,
the first bullet and options, so that a search for the kind of product finds it whatever its title says.
"""

import logging
import re
from collections.abc import Iterable

import bm25s
import numpy as np

from bestofq.core.errors import DataError
from bestofq.envs.webshop.products import Product

RESULTS = 50  # products a search returns at most (Yao et al. 2022)
logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for DEBUG itself
_WORD = re.compile(r"[^\W_]+")


class SearchIndex:
    """An index made once and never changed, so any number of threads may search it."""

    def __init__(self, products: Iterable[Product]) -> None:
        """Raises DataError when there is no product."""
        self._products = tuple(products)
        if not self._products:
            raise DataError("a search index needs at least 1 product, got 0: check the catalogue it is made from")
        self._bm25 = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numpy")
        self._bm25.index([_words(_document(product)) for product in self._products], show_progress=False)
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


def _document(product: Product) -> str:
    values = (value for option in product.options for value in option.values)
    return " ".join(
        (product.name, product.query, *product.category, *product.bullets, product.description, *values),
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
