"""A notebook that is kept as a script (`# %%` before each cell): as a .ipynb, and run, as a page with what it shows."""

import ast
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

MARKDOWN = " [markdown]\n"


def cells(source: str) -> Iterator[tuple[bool, str]]:
    """Whether each is words, and its text."""
    for cell in source.split("# %%")[1:]:
        if words := cell.startswith(MARKDOWN):
            cell = "\n".join(line.removeprefix("#").removeprefix(" ") for line in cell[len(MARKDOWN) :].splitlines())
        yield words, cell.strip("\n")


def as_ipynb(source: str) -> str:
    """Without outputs (nbformat 4.5)."""
    made: list[dict[str, Any]] = []
    for number, (words, text) in enumerate(cells(source)):
        kind: dict[str, Any] = {"cell_type": "markdown"}
        if not words:
            kind = {"cell_type": "code", "execution_count": None, "outputs": []}
        made.append({**kind, "id": f"cell-{number}", "metadata": {}, "source": text})
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def as_page(source: str, picture: Path) -> str:
    """What it says, its code, and what that prints; what a cell ends in is drawn into `picture`, an SVG file."""
    names: dict[str, Any] = {"__name__": "__main__"}
    parts = []
    for words, text in cells(source):
        parts.append(text if words else f"```python\n{text}\n```")
        if not words:
            said, shown = _run(text, names)
            parts += [f"```text\n{said.rstrip()}\n```"] if said else []
            if shown is not None:
                picture.write_text(shown._repr_svg_(), "utf-8")
                parts.append(f"![What the cell draws]({picture.name})")
    return "\n\n".join(parts) + "\n"


def _run(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line, where that is an expression that draws itself."""
    lines, value = ast.parse(code).body, None
    last = lines.pop() if isinstance(lines[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as said:
        exec(compile(ast.Module(lines, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return said.getvalue(), value if hasattr(value, "_repr_svg_") else None
