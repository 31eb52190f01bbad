"""Results and charts in the viewer."""

from pathlib import Path

import pytest
from looking import Looking

from bestofq.store.store import Store

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_store_without_results_says_so(tmp_path: Path, look: Looking) -> None:
    Store.open(tmp_path).close()
    async with look(tmp_path) as it:
        await it.go("/results")
        assert "no episode is finished" in await it.text("main")
        await it.go("/results?run=nothing")
        assert "there is no run 'nothing'" in await it.text("main")
