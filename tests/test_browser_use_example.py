"""The example that needs browser-use says so where it is absent."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "browser_use_ranker.py"


@pytest.mark.skipif(importlib.util.find_spec("browser_use") is not None, reason="browser-use is installed")
def test_it_is_skipped_with_one_sentence() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("skipped: ")
    assert done.stdout.count("\n") == 1
