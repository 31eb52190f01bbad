"""How long a command's threads spin before they sleep, as PyTorch's OpenMP tells."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@pytest.mark.parametrize(
    ("given", "spins"), [({}, "10000"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0"), ({"GOMP_SPINCOUNT": "7"}, "7")]
)
def test_threads_that_wait_soon_sleep_unless_the_user_says_otherwise(given: dict[str, str], spins: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    (torch,) = find_spec("torch").submodule_search_locations or ()  # type: ignore[union-attr]
    libraries = [str(path) for path in (Path(torch) / "lib").glob("libgomp*")]  # what PyTorch loads, alone
    loading = f"exit_with(lambda: [__import__('ctypes').CDLL(path) for path in {libraries!r}])"
    words = [sys.executable, "-c", f"from bestofq.cli.main import exit_with; {loading}"]
    done = subprocess.run(
        words, env=environment | {"OMP_DISPLAY_ENV": "VERBOSE"} | given, capture_output=True, text=True, check=True
    )
    said = [line.partition("=")[2].strip(" '") for line in done.stderr.splitlines() if "SPINCOUNT" in line]
    if not said:
        pytest.skip("PyTorch's OpenMP is none that tells")
    assert said == [spins]
