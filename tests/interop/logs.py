"""Small logs for the tests, and the command that imports them."""

import base64
import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from PIL import Image
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.decision import Episode
from bestofq.rollouts.console import console
from bestofq.store.store import Store


def bestofq(*words: str | Path) -> str:
    """What the command printed, on lines that are long enough. Its errors are raised."""
    with patch.object(console, "_width", 300):
        done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def picture(width: int, height: int = 2) -> bytes:
    data = BytesIO()
    Image.new("RGB", (width, height)).save(data, "PNG")
    return data.getvalue()


DOT = base64.b64encode(picture(1)).decode()


def written(file: Path, *records: object) -> Path:
    """A file with a JSON line a record; texts stand as they are."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def imported(kind: str, log: Path, store: Path) -> list[Episode]:
    """The log's episodes as the store gives them back. A second import adds none."""
    for _ in range(2):
        bestofq("import", kind, log, "--store", store)
    with Store.open(store, read_only=True) as opened:
        return list(opened.episodes())


def counts(said: str) -> Mapping[str, int]:
    """The numbers of the printed table, by their row."""
    rows = re.findall(r"^(\S.*?)  +([\d,]+)\b", said, re.M)
    return {name: int(count.replace(",", "")) for name, count in rows}


def shop_episode(number: int, **more: Any) -> dict[str, Any]:
    """A record of our own JSON lines: the second of two kettles is bought, which is right for an even number."""
    page = {
        "url": f"http://shop.example/{number}",
        "title": "Kettles",
        "text": "Red kettle [1]\nBlue kettle [2]",
        "elements": [
            {"mark": 1, "role": "link", "name": "Red kettle"},
            {"mark": 2, "role": "link", "name": "Blue kettle"},
        ],
    }
    first = {
        "observation": page,
        "candidates": ["click [1]", {"action": "click [2]", "thought": "It is blue.", "log_prob": -0.5}],
        "chosen": 1,
    }
    colour = "blue" if number % 2 == 0 else "red"
    last = {"observation": "Thank you for order " + str(number), "action": 'answer "bought"'}
    return {"goal": f"buy the {colour} kettle no. {number}", "steps": [first, last], "outcome": number % 2 == 0, **more}
