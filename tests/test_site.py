"""The site: what lies on it, its page of classes, and its notebook. `make site` builds it and checks every link."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scripts.api import api
from scripts.notebook import as_ipynb, as_page, cells
from scripts.tutorial import commands

ROOT = Path(__file__).parent.parent
NOTEBOOK = """# %% [markdown]
# # Two cells
#
# of `code`

# %%
found = 6 * 7
print("found", found)


class Drawing(str):
    def _repr_svg_(self) -> str:
        return f"<svg>{self}</svg>"


# %%
Drawing(found)
"""


def pages(part: object) -> Iterator[str]:
    """All that a part of the navigation leads to."""
    if isinstance(part, str):
        yield part
    else:
        for one in part.values() if isinstance(part, dict) else part:  # type: ignore[attr-defined]
            yield from pages(one)


def test_every_document_is_in_the_navigation_and_there() -> None:
    led = [*pages(tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"])]
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    notebooks = {path.relative_to(ROOT).with_suffix(".md").as_posix() for path in (ROOT / "docs").rglob("*.py")}
    others = {"README.md", "CHANGELOG.md", "experiments/README.md", "benchmarks/README.md", "docs/api.md"}
    assert sorted(led) == sorted(documents | notebooks | others)


def test_the_page_of_classes_has_signatures_fields_and_what_they_raise() -> None:
    page = api()
    for said in (
        "### `load_suite`",
        "load_suite(name: str, **settings: object) -> Suite",
        "- `log_prob`: natural log of the whole reply's probability",
        "SetupError",
        "from scores \\[N]",
    ):
        assert said in page


def test_a_notebook_is_a_page_with_what_it_prints_and_draws(tmp_path: Path) -> None:
    page = as_page(NOTEBOOK, tmp_path / "n.svg")
    assert page.startswith("# Two cells\n\nof `code`\n\n```python\nfound = 6 * 7\n")
    assert "```text\nfound 42\n```" in page
    assert page.rstrip().endswith("(n.svg)")
    assert (tmp_path / "n.svg").read_text() == "<svg>42</svg>"


def test_a_notebook_is_a_file_for_jupyter() -> None:
    made = json.loads(as_ipynb(NOTEBOOK))
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    assert [cell["source"] for cell in made["cells"]] == [text for _, text in cells(NOTEBOOK)]
    assert all({"id", "metadata", "source"} <= {*cell} for cell in made["cells"])


def test_the_tutorial_begins_with_the_claim() -> None:
    first, second, *rest = commands((ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    assert (first.split()[1], second.split()[1]) == ("doctor", "examples/own_scorer.py")
    assert [word for command in rest for word in ("collect", "train", "eval", "report") if f" {word} " in command]
