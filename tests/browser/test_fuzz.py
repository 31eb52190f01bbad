"""Generated pages cut no episode, and are read as Chromium's accessibility tree has them."""

import pytest

from benchmarks.fuzz_pages import fuzz

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def test_generated_pages_cut_nothing_and_hide_nothing() -> None:
    tally = await fuzz(range(20_000, 20_030), seed=1)
    assert tally.pages == 30
    assert tally.tokens > 300
    assert (tally.cut, tally.unexplained) == ([], [])
