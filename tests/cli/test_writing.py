import json
from math import inf, nan
from pathlib import Path

import pytest

from bestofq.cli.writing import write_json


def test_what_is_no_number_is_json_all_the_same(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"α": {"share": nan, "bounds": (0.5, inf), "steps": [1, -inf]}, "none": None})
    text = (tmp_path / "result.json").read_text("utf-8")
    expected = {"α": {"share": None, "bounds": [0.5, "Infinity"], "steps": [1, "-Infinity"]}, "none": None}
    assert json.loads(text, parse_constant=pytest.fail) == expected
    assert text.startswith('{\n "α"')


def test_committed_results_are_json() -> None:
    files = [*(Path(__file__).parents[2] / "experiments").glob("*/**/*.json")]
    assert len(files) > 10
    for file in files:
        json.loads(file.read_text("utf-8"), parse_constant=lambda name, file=file: pytest.fail(f"{name} in {file}"))
