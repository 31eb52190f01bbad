"""The house's rules that no linter knows, as tests. They only ever get stricter."""

import ast
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from bestofq import __version__
from scripts.pypi_readme import pypi_readme

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "bestofq"
EXPERIMENTS = ROOT / "experiments"
SITES = ROOT / "sites" / "src" / "bestofq_sites"
MODULES = sorted([*SRC.rglob("*.py"), *SITES.rglob("*.py"), *EXPERIMENTS.rglob("*.py")])
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MACHINE_PATH = re.compile(r"(?<![\w.<])/(?:work|home|root|tmp|Users)/")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def kept_files() -> list[Path]:
    """What git keeps or would keep."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for line in done.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_no_room_for_leftovers() -> None:
    assert [name_of(path) for path in MODULES if path.stem in FORBIDDEN_NAMES] == []


def test_a_package_file_holds_one_docstring() -> None:
    """Except those that are a public face or hold a version."""
    for path in MODULES:
        if path.name == "__init__.py" and path.parent not in (SRC, SRC / "testing", SITES):
            body = ast.parse(path.read_text("utf-8")).body
            assert len(body) == 1, name_of(path)
            assert isinstance(body[0], ast.Expr), name_of(path)


def test_no_module_of_the_library_imports_the_experiments() -> None:
    """So no agent reaches an oracle."""
    found = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{name_of(path)}: {name}" for name in names if name.partition(".")[0] == "experiments"]
    assert found == []


@pytest.mark.parametrize("package", [SRC, SITES], ids=["bestofq", "bestofq_sites"])
def test_a_wheel_holds_one_package_alone_with_all_its_data(package: Path) -> None:
    kept = {path.relative_to(package.parent).as_posix() for path in kept_files() if path.is_relative_to(package)}
    names = {file.distribution_path for file in WheelBuilder(str(package.parents[1])).recurse_included_files()}
    assert names == kept
    assert [name for name in names if "oracle" in name] == []


def test_the_readme_on_pypi_leads_nowhere_that_is_not_there() -> None:
    shown = WheelBuilder(str(ROOT)).metadata.core.readme
    assert "Make a frozen web agent better at inference" in shown
    assert "https://arxiv.org/abs/2601.22701" in shown
    assert [link for link in re.findall(r"\]\(([^)\s]+)", shown) if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "a page, , [web](https://a.test) and [below](#here)"),
        (
            "https://b.test/c",
            "[a page](https://b.test/c/blob/HEAD/docs/a.md#b), ![two\nwords](https://b.test/c/raw/HEAD/i.svg), "
            "[web](https://a.test) and [below](#here)",
        ),
    ],
)
def test_links_of_the_readme_lead_into_the_repository_where_it_has_an_address(source: str | None, said: str) -> None:
    text = "[a page](docs/a.md#b), ![two\nwords](i.svg), [web](https://a.test) and [below](#here)"
    assert pypi_readme(text, source) == said


def test_no_path_of_a_machine_is_kept() -> None:
    found = []
    for path in kept_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {line.strip()[:120]}" for line in text.splitlines() if has_path(line)]
    assert found == []


def has_path(line: str) -> bool:
    return MACHINE_PATH.search(line) is not None


def test_every_public_noun_and_verb_is_explained() -> None:
    bare = []
    for path in sorted((SRC / "core").glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                fields_only = all(isinstance(part, ast.AnnAssign) for part in node.body)
                if ast.get_docstring(node) is None and not fields_only:
                    bare.append(f"{path.name}: {node.name}")
    assert bare == []


def test_ci_runs_the_checks_that_end_in_the_tests() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    assert recipe.splitlines()[-1].strip() == "$(MAKE) test"
    assert "make check" in (ROOT / ".ci" / "run").read_text("utf-8")
    for script in (ROOT / ".ci" / "run", *(ROOT / "scripts").glob("*.sh")):
        assert script.stat().st_mode & 0o111, f"{script.name} is not executable"


def test_the_version_has_its_entry_in_the_changelog() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=name_of)
def test_a_benchmark_imports_names_that_exist(path: Path) -> None:
    helpers = {file.stem: str(file) for part in ("tests", "benchmarks") for file in (ROOT / part).rglob("*.py")}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        package, spec = node.module.partition(".")[0], None
        if package in ("bestofq", "bestofq_sites", "experiments"):
            spec = find_spec(node.module)
        elif find_spec(package) or package in ("browser_use", "browsergym", "d3rlpy"):
            continue
        source = Path((spec and spec.origin) or helpers[package])
        known = {*re.findall(r"\w+", source.read_text("utf-8"))}
        if source.name == "__init__.py":
            known |= {file.stem for file in source.parent.iterdir()}
        assert known >= {alias.name for alias in node.names}, ast.unparse(node)
