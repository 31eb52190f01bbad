"""`bestofq agent-q` refuses what cannot go well before it searches."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.errors import BestOfQError

COMPOSITE = ("--set", "model.dialect=composite")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [*COMPOSITE, "--set", "agent_q.feedback=q"],
            "ranks by a Q-function of one model, and each round makes another",
        ),
        (["nowhere"], "no suite 'nowhere'"),
        ([*COMPOSITE, "--model", "no/such/folder"], "no/such/folder"),
        (["--model", "pocket-agentq"], "learns from the tokens of composite actions: give a local model"),
        ([*COMPOSITE, "--set", "endpoints.chat.model=m"], "give a local model that writes them, .* and no endpoint"),
        ([*COMPOSITE, "--model", "pocket-agentq", "--set", "suite.only=none*"], "no task of webshop has an id like"),
        ([*COMPOSITE, "--model", "pocket-agentq", "--set", "suite.data=nowhere"], "nowhere"),
        (
            ["booking", *COMPOSITE, "--model", "pocket-agentq", "--rounds", "10", "--tasks", "100"],
            r"10 × 100 training tasks .*agent_q\.tasks.*booking has 904: set agent_q\.tasks to 90 or less",
        ),
    ],
)
def test_what_cannot_go_well_is_said_at_once(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BestOfQError, match=said):
        CliRunner().invoke(app, ["agent-q", "--store", str(tmp_path / "store"), *words], catch_exceptions=False)
    assert not list(tmp_path.iterdir())


def test_replayed_pairs_alone_are_refused(tmp_path: Path) -> None:
    words = ["tune", "--out", str(tmp_path / "out"), "--replay", "earlier.parquet"]
    with pytest.raises(BestOfQError, match="--pairs"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert not list(tmp_path.iterdir())
