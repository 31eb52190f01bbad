"""The JSON in a model's reply, whatever words surround it."""

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, strip_thinking

TRIES = 200
CHARACTERS = 20_000_000  # read in all tries together


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with all of these properties and no other, as strict structured output wants it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_of(reply: Reply) -> dict[str, Any]:
    """The first JSON object after a reply's thinking. ReplyError, which says what is wrong in words for the model."""
    if reply.finish in ("refused", "empty"):
        raise ReplyError("the reply was refused" if reply.finish == "refused" else "the reply was empty")
    try:
        return tolerant_json(strip_thinking(reply.text))
    except ReplyError as error:
        if not reply.finished:
            raise ReplyError(f"the reply was cut off after {reply.tokens} tokens: be briefer") from error
        raise


def tolerant_json(text: str) -> dict[str, Any]:
    """The first JSON object in a text that may hold a fence or words around it. ReplyError when there is none, or none
    at the first `TRIES` places where one may begin: each costs a reading of the text."""
    decoder = json.JSONDecoder(strict=False)  # line breaks within strings are let pass
    problem = "the reply holds no JSON object (write names in double quotes)"
    starts = (brace.start() for brace in re.finditer(r'\{(?=\s*["}])', text))
    for start in islice(starts, min(TRIES, max(1, CHARACTERS // max(1, len(text))))):
        try:
            found: dict[str, Any] = decoder.raw_decode(text, start)[0]
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can be read, not written
            return found
        except json.JSONDecodeError as error:
            problem = f"the reply is not valid JSON: {error.msg} at character {error.pos}"
            if error.pos >= len(text.rstrip()) - 1:
                break  # it stops short: what stands within it is not the reply
        except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
            raise ReplyError(f"the reply's JSON cannot be used: {error}") from error
    raise ReplyError(problem)
