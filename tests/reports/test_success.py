import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from report_nouns import PROVENANCE, record, row_of, task
from rich.console import Console

from bestofq.core.decision import Verdict
from bestofq.core.errors import DataError
from bestofq.reports.domains import domain_results, domain_table
from bestofq.reports.rows import Selection
from bestofq.reports.success import SuccessReport, agent_results, success_table
from bestofq.store.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Prompting: task a always, b never. Best-of-Q: both, but b not in the second repeat; c cut and never done."""
    with Store.open(tmp_path / "store") as store:
        await fill(store)
        yield store


async def fill(store: Store) -> None:
    await store.begin_run("eval", {"n": 3}, PROVENANCE)
    await record(store, "best|of[q]", task("b"), 0, 1, "infra_error")  # cut, done since
    for repeat in (0, 1):
        await record(store, "prompting", task("a"), repeat, 4)
        await record(store, "prompting", task("b"), repeat, 6, "failure")
        await record(store, "best|of[q]", task("a"), repeat, 2)
        await record(store, "best|of[q]", task("b"), repeat, 3, "success" if repeat == 0 else "blocked")
    for _ in range(2):
        await record(store, "best|of[q]", task("c"), 0, 1, "infra_error")


async def test_a_row_holds_what_the_store_holds(store: Store) -> None:
    row = row_of(agent_results(store, Selection(baseline="prompting")), "best|of[q]")
    assert (row.success.mean, row.success.runs) == (0.75, 2)
    assert row.success.error == pytest.approx(0.25)
    assert row.steps_for_success is not None
    assert row.steps_for_success.mean == pytest.approx((2.5 + 2) / 2)
    assert (row.episodes, row.tasks, row.runs) == (4, 2, 2)
    assert row.outcomes == {"success": 3, "blocked": 1, "infra_error": 1}
    assert row.difference is not None
    assert (row.difference.mean, row.difference.tasks) == (0.25, 2)


async def test_the_baseline_comes_first_and_has_no_difference(store: Store) -> None:
    table = agent_results(store, Selection(baseline="prompting"))
    assert [row.agent for row in table.rows] == ["prompting", "best|of[q]"]
    assert table.rows[0].difference is None
    assert table.rows[0].identical_runs
    assert any("identical" in note and "prompting" in note for note in table.notes)
    assert any("1 episodes cut" in note for note in table.notes)


async def test_the_order_of_agents_is_kept_and_the_baseline_need_not_be_shown(store: Store) -> None:
    table = agent_results(store, Selection(agents=["best|of[q]"], baseline="prompting"))
    assert [row.agent for row in table.rows] == ["best|of[q]"]
    assert table.rows[0].difference is not None


async def test_a_second_run_alike_is_another_pass_over_the_same_tasks(store: Store) -> None:
    await store.begin_run("again", {"n": 3, "seed": 1}, PROVENANCE)
    await record(store, "prompting", task("a"), 0, 4, "failure", run="again")
    await record(store, "prompting", task("b"), 0, 4, "failure", run="again")
    row = row_of(agent_results(store), "prompting")
    assert (row.runs, row.tasks, row.episodes) == (3, 2, 6)
    assert row.success.mean == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert row_of(agent_results(store, Selection(runs=["eval"])), "prompting").success.mean == 0.5


async def test_a_mean_over_passes_of_unlike_tasks_is_in_its_interval(store: Store) -> None:
    for repeat in range(2, 40):
        await record(store, "prompting", task("a"), repeat, 4)
    row = row_of(agent_results(store), "prompting")
    assert (row.success.mean, row.runs) == (0.5, 40)  # the mean of the runs' means is 0.975
    assert row.interval.low <= row.success.mean <= row.interval.high


async def test_whose_verdicts_they_are_is_said(store: Store) -> None:
    assert not any("judge" in note for note in agent_results(store).notes)
    episode = await record(store, "prompting", task("c"), 0, 1, "unjudged")
    await store.add_verdict(episode, Verdict(reward=0.0, outcome="failure", judge="a judge"), adopt=True)
    said = "1 of 9 verdicts are by the judge a judge. "
    for notes in (
        agent_results(store).notes,
        domain_results(store).notes,
        domain_table(domain_results(store), {}).notes,
    ):
        assert any(note.startswith(said) for note in notes)


async def test_the_texts_hold_the_numbers(store: Store) -> None:
    table = success_table(agent_results(store, Selection(baseline="prompting")))
    markdown = table.to_markdown()
    assert r"| best\|of[q] | 75.0 [" in markdown
    assert "| +25.0 [+0.0, +50.0] | 2 | 4 | 3 success, 1 blocked (of 4)" in markdown
    console = Console(file=io.StringIO(), width=180)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    assert "best|of[q]" in console.file.getvalue()
    assert "+25.0 [+0.0, +50.0]" in console.file.getvalue()


async def test_json_is_read_back_and_names_its_run(store: Store) -> None:
    table = agent_results(store, Selection(baseline="prompting"))
    assert SuccessReport.model_validate_json(table.model_dump_json()) == table
    assert table.runs == ("eval",)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"runs": ["evil"]}, "there is no run 'evil' in the store: it has eval"),
        ({"baseline": "random"}, "agent 'random' has no finished episode in eval"),
        ({"agents": ["nobody"]}, "agent 'nobody' has no finished episode"),
        ({"split": "train"}, "no episode is finished in eval"),
    ],
)
async def test_what_is_not_there_is_named(store: Store, asked: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        agent_results(store, Selection(**asked))  # type: ignore[arg-type]


async def test_the_episodes_are_a_frame(store: Store) -> None:
    frame = store.frame(agent="prompting")
    assert frame.group_by("task").aggregate([("steps", "sum")]).sort_by("task").to_pydict() == {
        "task": ["a", "b"],
        "steps_sum": [8, 12],
    }
    assert store.frame(agent="nobody").num_rows == 0
