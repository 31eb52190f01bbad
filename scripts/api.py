"""The site's page for programs: every public class and function of some modules, from its docstring."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import bestofq
from bestofq.core.frozen import FrozenModel

MODULES = (
    "bestofq",
    "bestofq.core.protocols",
    "bestofq.core.observation",
    "bestofq.core.actions",
    "bestofq.core.decision",
    "bestofq.core.transitions",
    "bestofq.core.errors",
    "bestofq.core.loading",
    "bestofq.store.store",
    "bestofq.learning.iql",
    "bestofq.learning.tracking",
    "bestofq.learning.checkpoint",
    "bestofq.learning.value",
    "bestofq.search.mcts",
    "bestofq.testing.scripted",
    "bestofq.testing.contracts",
)
PATH = re.compile(r"(?<![\w.])(?:\w+\.)+(?=[A-Z])")
_HEAD = """# Programs: classes and functions

`import bestofq as bq` gives the names of the first section, which stay; others are found by path, and may change.
"""


def api() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for name in MODULES for line in _module(import_module(name)))])


def _module(module: ModuleType) -> Iterator[str]:
    yield f"## `{module.__name__}`\n\n{_words(module.__doc__ if module is not bestofq else None)}\n"
    for name, found in _public(module):
        yield f"### `{name}`\n\n```python\n{_signature(name, found)}\n```\n\n{_words(inspect.getdoc(found))}\n"
        if isinstance(found, type):
            yield from _fields(found)
            for inner, method in _methods(found):
                yield f"**`{_signature(inner, method)}`**\n\n{_words(inspect.getdoc(method))}\n"


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    if module is bestofq:
        found = [(name, getattr(module, name)) for name in sorted(dir(bestofq))]
    else:
        found = [(name, one) for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    return [
        (name, one)
        for name, one in found
        if name[0] != "_" and (inspect.isclass(one) or inspect.isfunction(one)) and inspect.getdoc(one)
    ]


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, found in vars(kind).items():
        method = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if name[0] != "_" and inspect.isfunction(method):
            yield name, method


def _fields(kind: type) -> Iterator[str]:
    """Of settings and nouns, what stands beside each field."""
    if issubclass(kind, FrozenModel):
        described = {name: field.description for name, field in kind.model_fields.items()}
        yield "".join(f"- `{name}`{f': {_words(text)}' if text else ''}\n" for name, text in described.items())


def _signature(name: str, found: Any) -> str:
    """As it is written, without the path of each type."""
    try:
        call = str(inspect.signature(found))
    except (TypeError, ValueError):
        return name
    if isinstance(found, type) and (issubclass(found, FrozenModel) or getattr(found, "_is_protocol", False)):
        return f"class {name}"
    return name + PATH.sub("", call)


def _words(text: str | None) -> str:
    """A docstring as Markdown: a shape such as [N] is no link."""
    return re.sub(r"(?<!`)\[(?=[^\]`]*\])", r"\\[", text or "").strip()
