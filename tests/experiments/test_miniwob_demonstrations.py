"""MiniWoB++ as the pocket model is taught it: played in a real Chromium, kept in a file, mixed with WebShop's."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from bestofq.agents.dialects.commands import parse_action
from bestofq.core.actions import action_text
from bestofq.core.errors import InputError
from bestofq.envs.miniwob.settings import HELD_OUT
from bestofq.envs.miniwob.suite import SEEDS
from experiments.pocket_models.examples import Example
from experiments.pocket_models.miniwob_demonstrations import FIRST_SEED, MiniWobDemonstrations, demonstrate_miniwob

NAMES = ("click-button", "click-checkboxes", "enter-text")
CONFIG = MiniWobDemonstrations(instances=2, max_steps=8, names=NAMES, noise=0.5, pick_share=1, review_share=1)
installed = pytest.mark.skipif(find_spec("miniwob") is None, reason="MiniWoB++'s pages are not installed")


def proposals(examples: list[Example]) -> dict[str, str]:
    return {turns[0].prompt: turns[0].reply for turns in examples if turns[0].prompt.endswith("\nnext:")}


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Example], Path]:
    """What one page plays, and where that is kept."""
    folder = tmp_path_factory.mktemp("one")
    return asyncio.run(demonstrate_miniwob(CONFIG, 0, folder, at_once=1)), folder


@installed
async def test_examples_are_the_same_however_many_pages_play_and_are_kept(
    noisy: tuple[list[Example], Path], tmp_path: Path
) -> None:
    one, folder = noisy
    three = await demonstrate_miniwob(CONFIG, 0, tmp_path / "three", at_once=3)
    assert one == three
    assert {turns[0].prompt.rpartition("\n")[2] for turns in one} == {"next:", "best:", "so:"}
    for turns in one:
        if turns[0].prompt.endswith("\nbest:"):
            assert 1 <= int(turns[0].reply) <= 3
    for reply in proposals(one).values():
        thought, command = reply.strip().split("\n")
        assert thought
        assert action_text(parse_action(command)) == command

    (kept,) = folder.iterdir()
    rows = kept.read_text("utf-8").splitlines(keepends=True)
    assert len(rows) == len(NAMES) * CONFIG.instances
    kept.write_text("".join(rows[:-1]) + rows[-1][:50], "utf-8")  # interrupted in the last episode
    assert await demonstrate_miniwob(CONFIG, 0, folder, at_once=1) == one
    assert kept.read_text("utf-8") == "".join(rows)


@installed
async def test_only_train_seeds_of_tasks_not_held_out(tmp_path: Path) -> None:
    assert FIRST_SEED in SEEDS["train"]
    for family in HELD_OUT.values():
        with pytest.raises(InputError, match=family[0]):
            await demonstrate_miniwob(MiniWobDemonstrations(names=family), 0, tmp_path)
