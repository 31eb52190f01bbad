"""`report` and `compare` as they are typed."""

import asyncio
import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Outcome, Provenance, Step, Verdict
from bestofq.core.errors import InputError
from bestofq.core.observation import Observation, Task
from bestofq.rollouts.console import console
from bestofq.store.store import Store

MADE = Provenance(version="0.0-test", commit="0123456789abcdef", command="bestofq eval --n 2")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 250)  # and not `width`, which would stay for other files


def type_in(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    if found.exception is not None:
        raise found.exception
    return found.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two agents on two tasks, with a judge beside the environment's verdicts."""

    async def fill(store: Store) -> None:
        await store.begin_run("eval", {"n_candidates": 2, "model": {"path": "pocket"}}, MADE)
        for agent in ("prompting", "best-of-q"):
            for name in ("shop/a", "shop/b"):
                what = Task(id=name, suite="s", goal="g", start_url="http://s.example/")
                episode = await store.begin_episode("eval", agent, what, 0, MADE)
                candidates = (
                    Candidate(action=Click(mark=1), label="one"),
                    Candidate(action=Click(mark=2), label="two"),
                )
                seen = Observation(url="http://s.example/", title="S", text="s", elements=())
                good = agent == "best-of-q"
                decision = Decision(
                    candidates=candidates, scores=(0.2, 0.7), state_value=0.5 if good else None, chosen=int(good)
                )
                await store.append_step(episode, Step(index=0, observation=seen, decision=decision))
                outcome: Outcome = "success" if good or name == "shop/a" else "failure"
                await store.finish_episode(episode, Verdict(reward=float(outcome == "success"), outcome=outcome), None)
                told = Verdict(reward=float(outcome == "success"), outcome=outcome, judge="j")
                await store.add_verdict(episode, told, adopt=False)
                await store.begin_run("judged", {}, MADE)
                other = await store.begin_episode("judged", agent, what, 0, MADE)
                await store.finish_episode(other, Verdict(reward=0.0, outcome="unjudged"), None)
                await store.add_verdict(other, told, adopt=True)

    with Store.open(tmp_path / "store") as store:
        asyncio.run(fill(store))
    return tmp_path / "store"


def test_tables_are_printed_by_name(folder: Path) -> None:
    said = type_in(
        "report", str(folder), "--run", "eval", "--table", "agents", "--table", "reliability", "--baseline", "prompting"
    )
    assert "+50.0 [+0.0, +100.0]" in said
    assert "pass@k" in said
    assert "Calibration" not in said
    with pytest.raises(InputError, match=r"no table 'nothing' of these runs: there are agents, reliability"):
        type_in("report", str(folder), "--table", "nothing")


def test_tables_are_written_with_where_they_come_from(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    type_in("report", "--store", str(folder), "--run", "eval", "--csv", str(out), "--json", str(out))
    (first, *_) = csv.DictReader((out / "agents.csv").read_text("utf-8").splitlines())
    assert (first["commit"], first["model"], first["N"], first["command"]) == (
        "0123456789abcdef",
        "pocket",
        "2",
        "bestofq eval --n 2",
    )
    assert json.loads((out / "recall.json").read_text("utf-8"))["name"] == "recall"


@pytest.mark.slow
def test_the_pages_lie_in_the_folder_asked_for_or_in_the_store_s(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    type_in("report", str(folder), "--html", str(tmp_path / "out"))
    assert (tmp_path / "out" / "index.html").exists()
    type_in("report", str(folder))
    assert (folder / "report" / "index.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


@pytest.mark.slow
def test_looking_at_runs_loads_no_model_and_no_browser(folder: Path) -> None:
    """As typed, in a process of its own; `view` ends at a port that is none of this machine's."""
    commands = (
        ["report", str(folder), "--table", "all", "--html", str(folder / "out")],
        ["report", str(folder), "--by", "agent"],
        ["view", str(folder), "--host", "203.0.113.1"],
    )
    code = (
        "import sys\n"
        "from bestofq.cli.main import run\n"
        f"for words in {commands!r}:\n"
        "    sys.argv = ['bestofq', *words]\n"
        "    try:\n        run()\n    except SystemExit:\n        pass\n"
        "print('loaded:', [m for m in ('torch', 'transformers', 'openai', 'playwright') if m in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.rstrip().endswith("loaded: []")
    assert (folder / "out" / "index.html").exists()


def test_compare_groups_by_settings_and_draws_bars(folder: Path, tmp_path: Path) -> None:
    svg = tmp_path / "bars.svg"
    said = type_in(
        *("report", str(folder), str(folder), "--by", "n_candidates", "--by", "agent", "--svg", str(svg)),
        *("--reference", "human=50", "--csv", str(tmp_path), "--markdown", str(tmp_path)),
    )
    assert "best-of-q" in (tmp_path / "by-n_candidates-agent.md").read_text("utf-8")
    assert "Success by n_candidates, agent" in said
    assert "human 50.0 %" in svg.read_text("utf-8")
    assert (tmp_path / "by-n_candidates-agent.csv").exists()
    for reference in ("human", "human=nan", "human=-1", "human=101"):
        with pytest.raises(InputError, match="is not NAME=PERCENT"):
            type_in("report", str(folder), "--by", "agent", "--reference", reference, "--svg", str(svg))
