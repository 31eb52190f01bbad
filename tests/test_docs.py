"""What the documents say of files, code and commands is so."""

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bestofq.cli.commands import PLACES, app, load_command
from bestofq.core.errors import BestOfQError
from experiments.__main__ import app as experiments_app
from scripts.api import api
from scripts.notebook import as_ipynb, as_page, cells

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "experiments").rglob("*.md")])
EXPERIMENTS = get_command(experiments_app).commands  # type: ignore[attr-defined]
PROGRAMS = ("bestofq", "python -m experiments")
SCRIPTS = sorted((ROOT / "experiments").rglob("*.sh"))
MEASURED = sorted((ROOT / "benchmarks").glob("*.[mp][dy]"))
AWAY = {"serve", "view", "run", "demo", "agent-q", "search", "pairs", "tune", "judge"}
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))


def test_links_lead_to_files() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))]
    assert [(page, to) for page, to in links if "://" not in to and not (page.parent / to).exists()] == []


@pytest.mark.parametrize("page", HOW_TO, ids=[page.name for page in HOW_TO])
def test_a_how_to_shows_an_example_that_ci_runs(page: Path) -> None:
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```python ?(\S*)\n(.*?)^```$", text, re.M | re.S)
    assert blocks or "](../../examples/" in text
    for name, code in blocks:
        assert Path(name).parent == Path("examples")
        assert code == (ROOT / name).read_text("utf-8"), name


def test_code_is_where_it_is_said_to_be() -> None:
    missing = []
    for page in PAGES:
        for name, names in re.findall(r"`([\w/]+/\w+\.py)(?:: ([^`]+))?`", page.read_text("utf-8")):
            found = [file for place in (ROOT / "src/bestofq", ROOT, page.parent) if (file := place / name).exists()]
            if not found:
                missing.append((page, name))
                continue
            code = found[0].read_text("utf-8")
            missing += [(page, name, word) for word in re.findall(r"\w+", names) if not re.search(rf"\b{word}\b", code)]
    assert missing == []


def test_commands_of_pages_and_scripts_exist_with_their_options() -> None:
    called = [(page, *found) for page in PAGES for found in commands_of(page.read_text("utf-8"))]
    for script in SCRIPTS:
        calls = re.findall(r'"\$BESTOFQ" (.*)', script.read_text("utf-8").replace("\\\n", " "))
        assert calls or script.name == "prepare.sh", script
        called += [(script, "bestofq", shlex.split(call)) for call in calls]
    for page, program, words in called:
        assert words[0] in (PLACES if program == "bestofq" else EXPERIMENTS), (page, words)
        command = load_command(words[0]) if program == "bestofq" else EXPERIMENTS[words[0]]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options, (page, words)


def commands_of(text: str, *, inline: bool = True) -> Iterator[tuple[str, list[str]]]:
    """The program and the words after it, in blocks and `inline`."""
    program = "|".join(PROGRAMS)
    for block in re.findall(r"^```(?:sh|bash)\n(.*?)^```$", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(rf"(?:\.venv/bin/)?({program}) (.*)", line.strip())
            if found:
                yield found.group(1), shlex.split(found.group(2), comments=True)
    words = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S) if inline else ""
    for name, command in re.findall(rf"`({program}) ([^`]+)`", words):
        yield name, shlex.split(command)


@pytest.mark.slow
def test_fenced_commands_run_where_they_need_no_network_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one folder, with `--dry-run` where there is one; all are parsed. What lacks a file ends with a sentence."""
    monkeypatch.chdir(tmp_path)
    store = "--store postgresql://user@host/database --files s3://bucket/prefix"
    texts = (page.read_text("utf-8").replace("$STORE", store) for page in PAGES if "experiments" not in page.parts)
    both = (found for text in texts for found in commands_of(text, inline=False))
    called, ended = [tuple(words) for name, words in both if name == "bestofq"], Counter[int]()
    made = [("collect", "--tasks", "2", "--set", "seed_runs=1"), ("train", "--out", "runs/q", "--no-estimate")]
    for words in dict.fromkeys([*made, *called]):
        parsed = load_command(words[0]).make_context(words[0], [*words[1:]]).params
        away = {"base_url", "upstream", "url", "model", "data"} & {name for name in parsed if parsed[name]}
        if away or store.split()[1] in words or words[0] in AWAY:
            continue
        done = CliRunner().invoke(app, [*words, *(["--dry-run"] if "dry_run" in parsed and words not in made else [])])
        assert done.exit_code == 0 or isinstance(done.exception, BestOfQError), (words, done.exception)
        ended[done.exit_code] += 1
    assert ended[0] >= 30


def test_benchmarks_and_targets_of_make_exist_with_their_options() -> None:
    targets, missing = (ROOT / "Makefile").read_text("utf-8"), []
    for page in [*PAGES, *MEASURED]:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for name, given in re.findall(r"python (benchmarks/\w+\.py)((?: +[^\s`|]+)*)", text):
            code = (ROOT / name).read_text("utf-8")
            options = re.findall(r"--[\w-]+", given)
            missing += [(page, name, option) for option in options if f'"{option}"' not in code]
        called = re.findall(r"(?:^|`)make ([\w-]+)", text, re.M)
        missing += [(page, "make", target) for target in called if f"\n{target}:" not in targets]
    assert missing == []


def test_every_study_has_its_place_among_the_results() -> None:
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    folders = [page.parent for page in (ROOT / "experiments").glob("*/README.md")]
    studies = [folder.name for folder in folders if not (folder / "__init__.py").exists()]
    assert [name for name in studies if f"](../experiments/{name}/README.md)" not in text] == []


def test_own_parts_are_as_short_as_said() -> None:
    proposer = (ROOT / "examples/own_proposer.py").read_text("utf-8")
    assert len(proposer.partition("class ")[2].partition("\n\n\n")[0].splitlines()) <= 20
    suite = (ROOT / "examples/own_suite.py").read_text("utf-8").partition("\nCOLOURS")[2]
    assert len([line for line in suite.splitlines() if line.strip()]) <= 30


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
    for said in ("load_suite(name: str, **settings: object) -> Suite", "- `log_prob`: ", "SetupError"):
        assert said in page


def test_a_notebook_is_a_page_with_what_it_prints_and_draws_and_a_file_for_jupyter(tmp_path: Path) -> None:
    page = as_page(NOTEBOOK, tmp_path / "n.svg")
    assert page.startswith("# Two cells\n\nof `code`\n\n```python\nfound = 6 * 7\n")
    assert "```text\nfound 42\n```" in page
    assert page.rstrip().endswith("(n.svg)")
    assert (tmp_path / "n.svg").read_text() == "<svg>42</svg>"
    made = json.loads(as_ipynb(NOTEBOOK))
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    assert [cell["source"] for cell in made["cells"]] == [text for _, text in cells(NOTEBOOK)]
    assert all({"id", "metadata", "source"} <= {*cell} for cell in made["cells"])
