"""What `--cluster` refuses, before anything is played."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.errors import ConfigError


@pytest.mark.parametrize("command", ["collect", "search"])
def test_a_folder_is_no_store_for_a_cluster(command: str, tmp_path: Path) -> None:
    words = [command, "webshop", "--store", str(tmp_path / "store"), "--tasks", "1", "--cluster", "auto"]
    with pytest.raises(ConfigError, match="postgresql"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert not (tmp_path / "store").exists()
