"""The page of all commands, settings and public names: as committed, and whole."""

import re
from pathlib import Path

import bestofq as bq
from bestofq.cli.commands import PANELS
from bestofq.cli.config import setting_names
from bestofq.config.settings import BestOfQSettings
from scripts.reference import MADE_BY, reference

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")


def test_the_committed_page_is_up_to_date() -> None:
    assert reference() == PAGE, f"docs/reference.md is not what the code says: run `{MADE_BY}` and commit it"


def test_everything_is_on_it() -> None:
    for panel, commands in PANELS.items():
        assert f"### {panel}\n" in PAGE
        assert all(f"#### `bestofq {name}`" in PAGE and example in PAGE for name, (_, example) in commands.items())
    assert [name for name in bq.__all__ if f"- `bq.{name}" not in PAGE] == []
    tables = {
        f"{place}.{setting}".removeprefix(".")
        for heading, rows in re.findall(r"^### (.*)\n\n((?:\|.*\n)+)", PAGE.partition("## Settings")[2], re.M)
        for place in re.findall(r"`([\w.]+)`", heading) or [""]
        for setting in re.findall(r"^\| `(\w+)`", rows, re.M)
    }
    assert [name for name in setting_names(BestOfQSettings) if name not in tables] == []


def test_every_option_setting_and_name_is_explained() -> None:
    rows = re.findall(r"^(?:\| (`.*`) \|.*\| |- `bq\.(.*)`:)(.*?) ?\|?$", PAGE, re.M)
    assert len(rows) > 300
    assert [option or name for option, name, meaning in rows if not meaning.strip()] == []
