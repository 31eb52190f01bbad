"""What `import bestofq as bq` gives: few names, loaded when used, enough for every example."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import bestofq as bq
from bestofq import testing
from bestofq.core.errors import ConfigError

BY_PATH = {"bestofq.testing": testing.__all__}
EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_the_public_names() -> None:
    assert sorted(bq.__all__) == [
        *("Action", "Agent", "Candidate", "ChatModel", "ChatPickerScorer", "ChatProposer", "Click"),
        *("LocalModel", "Observation", "Proposal", "Ranker", "SamplingProposer", "Scores", "State", "Store", "Suite"),
        *("Task", "UniformSelector", "Write", "act", "export", "gather", "load_suite", "observe", "open_site"),
        *("play", "search_tree", "viewer_app", "visit"),
    ]
    assert len(bq.__all__) <= 30
    assert all(getattr(bq, name) is not None for name in bq.__all__)


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, bestofq as bq\n"
        "heavy = ('torch', 'transformers', 'openai', 'playwright')\n"
        "print([name for name in (*heavy, 'pydantic') if name in sys.modules])\n"
        "bq.Task, bq.Agent, bq.Store, bq.gather\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]


def test_a_suite_refuses_what_only_the_commands_read() -> None:
    with pytest.raises(ConfigError, match=r"suite\.step_limit"):
        bq.load_suite("webshop", step_limit=4)


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_needs_the_public_names_alone(example: Path) -> None:
    tree = ast.parse(example.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bestofq"):
            assert {name.name for name in node.names} <= {*BY_PATH[node.module or ""]}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bq":
            assert node.attr in bq.__all__


EXAMPLE = Path(__file__).parent.parent / "examples" / "browser_use_ranker.py"


@pytest.mark.skipif(importlib.util.find_spec("browser_use") is not None, reason="browser-use is installed")
def test_it_is_skipped_with_one_sentence() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("skipped: ")
    assert done.stdout.count("\n") == 1
