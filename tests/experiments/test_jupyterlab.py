"""The tasks of experiments/jupyterlab, and when they are done. Its run.sh shows that our actions do them."""

import pytest

from experiments.jupyterlab.suite import JupyterLab
from experiments.jupyterlab.templates import TEMPLATES, WORDS, World, make_problem

TASKS = [f"{template}/test-0" for template in TEMPLATES]


def worlds(task: str) -> tuple[World, World]:
    """At the task's beginning, and when it is done."""
    problem = make_problem(task)
    files = dict(problem.before if problem.after is None else problem.after)
    files |= {problem.holds: "x = 1"} if problem.holds else {}
    for path, cells in files.items():
        if not isinstance(cells, str):
            files[path] = tuple((kind, "2 + 3" if source == "*" else source, output) for kind, source, output in cells)
    files |= {f"{path.rpartition('/')[0]}/": "" for path in files if "/" in path.rstrip("/")}
    sessions = problem.sessions_before if problem.sessions is None else problem.sessions
    before = World(files=problem.before, sessions=problem.sessions_before)
    return before, World(files=files, sessions=sessions, settings=problem.settings)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_in_its_last_world_and_not_before(task: str) -> None:
    before, after = worlds(task)
    problem = make_problem(task)
    assert (problem.is_done(before), problem.is_done(after)) == (False, True)
    if problem.after is not None:  # a file too many
        assert not problem.is_done(after.model_copy(update={"files": {**after.files, "Untitled.ipynb": ()}}))
    if problem.sessions is not None:
        assert not problem.is_done(after.model_copy(update={"sessions": after.sessions | {"other.ipynb"}}))


def test_a_result_that_is_written_by_hand_is_no_computation() -> None:
    _, after = worlds("compute/test-0")
    (path, cells), *_ = after.files.items()
    copied = {path: [(kind, output, output) for kind, _, output in cells]}
    assert not make_problem("compute/test-0").is_done(World(files=copied))


async def test_splits_share_no_name_and_test_has_templates_of_its_own() -> None:
    train, test = [await JupyterLab({"per_template": 3}).tasks(split) for split in ("train", "test")]
    assert {task.group for task in train} < {task.group for task in test} == {*TEMPLATES}
    assert len(TEMPLATES) >= 20
    assert not set(WORDS["train"].split()) & set(WORDS["test"].split())
