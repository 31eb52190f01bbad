import io
from pathlib import Path

import pytest
from line_world import line_agent, line_env, line_task
from rich.console import Console

from bestofq.core.decision import Decision, Episode, Provenance, Step, Verdict
from bestofq.core.usage import Usage
from bestofq.rollouts import progress as progress_module
from bestofq.rollouts.progress import LiveProgress
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def one_episode(folder: Path) -> Episode:
    with Store.open(folder) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        await run_many([line_task("t", 3)], line_env, line_agent(), store=store, run="r")
        return next(store.episodes())


def with_tokens(step: Step, tokens: int) -> Step:
    decision = step.decision.model_dump() | {"usage": [Usage(role="proposer", tokens_in=tokens, tokens_out=100)]}
    return step.model_copy(update={"decision": Decision.model_validate(decision)})


async def test_plain_lines_where_there_is_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    episode, out, clock = await one_episode(tmp_path), io.StringIO(), Clock()
    monkeypatch.setattr(progress_module, "console", Console(file=out))
    lost = episode.model_copy(update={"verdict": Verdict(reward=0.0, outcome="infra_error")})
    with LiveProgress("collect", clock=clock) as progress:
        progress.begin([], 4)
        clock.now = 5.0
        progress.step(with_tokens(episode.steps[0], 1_900).decision.usage)
        progress.episode(episode.verdict)
        assert out.getvalue() == ""
        clock.now = 10.0
        progress.step(episode.steps[0].decision.usage)
        clock.now = 15.0
        progress.episode(lost.verdict)
    assert out.getvalue().splitlines() == [
        "collect: 1/4 episodes · 100.0% success · 0.2 steps/s · 2.0 k tokens · 30 s left",
        "collect: 1/4 episodes · 100.0% success · 0.1 steps/s · 2.0 k tokens · 1 cut off · 45 s left",
    ]


async def test_a_live_line_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress_module, "console", Console(file=out, force_terminal=True, width=120))
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        tasks = [line_task(f"t{n}", 3) for n in range(5)]
        with LiveProgress("walker") as progress:
            await run_many(tasks, line_env, line_agent(), store=store, run="r", options=RunOptions(progress=progress))
        assert "5/5" in out.getvalue()
        assert "success" in out.getvalue()
        monkeypatch.setattr(progress_module, "console", Console(file=(again := io.StringIO())))
        with LiveProgress("walker") as progress:
            await run_many(tasks, line_env, line_agent(), store=store, run="r", options=RunOptions(progress=progress))
        assert again.getvalue() == "walker: 5/5 episodes · 100.0% success · all were stored already\n"
