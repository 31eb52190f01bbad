import sys

import pytest

from bestofq.core.errors import SetupError
from bestofq.core.loading import extra


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"peft is not installed; install it with `pip install 'bestofq\[agentq\]'`"):
        extra("peft")


def test_a_module_of_a_package_is_found() -> None:
    assert extra("pyarrow.parquet").__name__ == "pyarrow.parquet"
