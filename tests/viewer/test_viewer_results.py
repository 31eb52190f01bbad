"""Results and charts in the viewer."""

from pathlib import Path

import pytest
from looking import Looking

from bestofq.store.store import Store

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.slow
async def test_results_are_a_page_of_the_viewer(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/results?run=eval")
        assert await it.text("h1") == "Results of eval"
        assert await it.count("table.results") > 5
        assert await it.count("figure svg") > 3
        assert it.complaints == []
        await it.go("/results?run=nothing")
        assert "there is no run 'nothing'" in await it.text("main")


async def test_a_store_without_results_says_so(tmp_path: Path, look: Looking) -> None:
    Store.open(tmp_path).close()
    async with look(tmp_path) as it:
        await it.go("/results")
        assert "no episode is finished" in await it.text("main")
