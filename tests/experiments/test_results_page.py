"""The page of all studies: as committed, and what it makes of a folder."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.core.errors import DataError, InputError
from experiments.__main__ import app
from experiments.results_page import is_code, results_page

ROOT = Path(__file__).parents[2]
README = """# How high?

The question, [settings](config.toml), [another](../b/README.md).

```sh
bestofq ablation a/study.toml
```

| arm | success |
| --- | --: |

## What it shows

- Less, see [the site](https://example.org).

![Success](success.svg)

## Files
None.
"""


def test_the_committed_page_is_up_to_date() -> None:
    page = ROOT / "docs" / "results.md"
    said = "is not what the experiments say: run `make results` and commit it"
    assert page.read_text("utf-8") == results_page(ROOT / "experiments", page), said


def test_every_study_of_the_repository_is_on_it() -> None:
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    for folder in (ROOT / "experiments").glob("[!_]*/"):
        assert is_code(folder) or f"](../experiments/{folder.name}/README.md)" in text


def test_a_study_as_the_page_tells_it(tmp_path: Path) -> None:
    folder = tmp_path / "experiments" / "a"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(README, "utf-8")
    out = tmp_path / "docs" / "results.md"
    arguments = ["results", "--experiments", str(folder.parent), "--out", str(out)]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    text = out.read_text("utf-8")
    assert "- [How high?](#how-high): no result yet" in text
    assert "There is no result yet." in text
    assert "[settings](../experiments/a/config.toml), [another](../experiments/b/README.md)" in text
    assert "```sh\nbestofq ablation a/study.toml\n```" in text
    assert "### What it shows\n\n- Less, see [the site](https://example.org)." in text
    assert "None." not in text
    assert CliRunner().invoke(app, [*arguments, "--check"], catch_exceptions=False).exit_code == 0

    (folder / "result.json").write_text('{"not_run": "it takes a GPU"}', "utf-8")
    assert "There is no result yet." in results_page(folder.parent, out)

    (folder.parent / "README.md").write_text("# When?\n\nSometimes, see [a](a/README.md).\n", "utf-8")
    (folder / "table.md").write_text("| a |\n| --- |\n| 1 |\n\nNote.\n\n| b |\n| --- |\n", "utf-8")
    (folder / "success.svg").write_text("<svg/>", "utf-8")
    (folder / "result.json").write_text("{}", "utf-8")
    with pytest.raises(InputError, match="run `make results`"):
        CliRunner().invoke(app, [*arguments, "--check"], catch_exceptions=False)
    text = results_page(folder.parent, out)
    assert "## When?\n\nSometimes, see [a](../experiments/a/README.md).\n\n## Studies\n\nEach study" in text
    assert "no result yet" not in text
    assert "| 1 |\n\nNote.\n\n![success](../experiments/a/success.svg)" in text
    assert "| b |" not in text
    assert text.count("success.svg") == 1


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere holds no folder of a study"):
        results_page(tmp_path / "nowhere", tmp_path / "results.md")


@pytest.mark.parametrize("readme", [None, "no title\n"], ids=["none", "without a title"])
def test_a_folder_that_says_nothing_is_refused(readme: str | None, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    if readme is not None:
        (tmp_path / "a" / "README.md").write_text(readme, "utf-8")
    with pytest.raises(DataError, match=r"README\.md"):
        results_page(tmp_path, tmp_path / "results.md")
