"""Replies held to a JSON schema while they are drawn: by llguidance, the engine of vLLM and SGLang for that (extra
`local`). It needs no compilation ahead, and knows the schemas that the dialects are written in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bestofq.core.language import JsonSchema, Request
from bestofq.core.loading import extra

LETTERS = 200  # of a text, at most: a small model that repeats itself must come to an end
NUMBER = 9999


class Grammars:
    """JSON grammars over the tokens of one tokenizer."""

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        """SetupError where llguidance is not installed."""
        self._library = extra("llguidance")
        text = tokenizer.backend_tokenizer.to_str()
        self._tokenizer = self._library.LLTokenizer(text, n_vocab=len(tokenizer), eos_token=list(ends))

    def hold(self, requests: Sequence[Request]) -> "Held":
        """What holds each draw of each request to its schema, where it has one."""
        return Held([self._matchers(request) for request in requests], self._tokenizer.vocab_size)

    def _matchers(self, request: Request) -> list[Any]:
        if request.schema is None:
            return [None] * request.n
        library = self._library
        grammar = library.LLMatcher.grammar_from_json_schema(
            bound_schema(request.schema), defaults={"whitespace_flexible": False}
        )
        first = library.LLMatcher(self._tokenizer, grammar)
        return [first, *(first.deep_copy() for _ in range(request.n - 1))]


class Held:
    """The state of each draw's grammar: B rows of R draws."""

    def __init__(self, matchers: Sequence[Sequence[Any]], vocabulary: int) -> None:
        self._matchers = matchers
        self._vocabulary = vocabulary

    def mask_logits(self, logits: Tensor, active: Tensor, alive: Tensor) -> Tensor:
        """Logits [A, R, V] of rows `active`, -inf for what must not follow in a draw still `alive` [B, R]."""
        allowed = np.ones(logits.shape, np.bool_)
        for place, row in enumerate(active.tolist()):
            for draw, matcher in enumerate(self._matchers[row]):
                if matcher is not None and alive[row, draw]:
                    bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
                    allowed[place, draw] = False  # of a table that is longer than the vocabulary, too
                    held = np.unpackbits(bits, bitorder="little")[: self._vocabulary]
                    allowed[place, draw, : len(held)] = held
        return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), float("-inf"))

    def take(self, tokens: Tensor, active: Tensor, alive: Tensor) -> None:
        for drawn, row in zip(tokens.tolist(), active.tolist(), strict=True):
            for draw, matcher in enumerate(self._matchers[row]):
                if matcher is not None and alive[row, draw]:
                    matcher.consume_token(drawn[draw])


def bound_schema(schema: JsonSchema) -> dict[str, Any]:
    """The same schema with an end to every text and number, so that a reply of it has one too."""
    limits: dict[str, dict[str, Any]] = {
        "string": {} if "enum" in schema else {"maxLength": LETTERS},
        "integer": {"minimum": 0, "maximum": NUMBER},
        "number": {"type": "integer", "minimum": 0, "maximum": NUMBER},  # decimals have no end
    }
    found: dict[str, Any] = {**schema, **limits.get(str(schema.get("type")), {})}
    if "properties" in found:
        found["properties"] = {name: bound_schema(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = bound_schema(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [bound_schema(inner) for inner in found["anyOf"]]
    return found
