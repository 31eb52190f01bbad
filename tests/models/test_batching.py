"""Requests of many episodes come into batches; several batches are worked on at once."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from bestofq.models.batching import MicroBatcher

PATIENCE = 10  # seconds until a barrier that nobody else reaches breaks


async def test_one_lane_takes_all_that_waits_up_to_its_limit() -> None:
    sizes: list[int] = []

    def double(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        return [2 * item for item in items]

    batcher: MicroBatcher[int, int] = MicroBatcher(double, limit=24)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(40))) == [2 * n for n in range(40)]
    assert sizes == [24, 16]


async def test_two_lanes_share_what_waits_and_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    sizes: list[int] = []

    def double(items: Sequence[int]) -> list[int]:
        both.wait()  # breaks unless another batch is in work
        sizes.append(len(items))
        return [2 * item for item in items]

    batcher: MicroBatcher[int, int] = MicroBatcher(double, limit=64, lanes=2)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(41))) == [2 * n for n in range(41)]
    assert sorted(sizes) == [20, 21]
    assert batcher.busy == 0


async def test_a_request_waits_for_no_batch_while_a_lane_is_free() -> None:
    held = threading.Event()

    def work(items: Sequence[str]) -> Sequence[str]:
        assert items != ["long"] or held.wait(PATIENCE)
        return items

    batcher: MicroBatcher[str, str] = MicroBatcher(work, limit=64, lanes=2)
    long = asyncio.create_task(batcher.submit("long"))
    await asyncio.sleep(0.05)
    assert await batcher.submit("short") == "short"
    assert not long.done()
    held.set()
    assert await long == "long"


@pytest.mark.parametrize("turns", range(5))
def test_a_run_that_is_cut_off_leaves_nothing_to_wait_for(turns: int) -> None:
    """Before a batch is made, before it is worked on, and while."""
    batcher: MicroBatcher[int, Sequence[int]] = MicroBatcher(lambda items: [items] * len(items), limit=1)

    async def cut_off() -> None:
        asked = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not all(one.done() for one in asked)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        asyncio.run(cut_off())
    assert asyncio.run(asyncio.wait_for(batcher.submit(3), PATIENCE)) == [3]


async def test_an_error_reaches_its_own_batch_alone_and_the_next_is_worked_on() -> None:
    def work(items: Sequence[int]) -> Sequence[int]:
        if 0 in items:
            raise ZeroDivisionError("a bug")
        return items

    batcher: MicroBatcher[int, int] = MicroBatcher(work, limit=8)
    found = await asyncio.gather(*(batcher.submit(n) for n in range(16)), return_exceptions=True)
    assert [type(one) for one in found[:8]] == [ZeroDivisionError] * 8
    assert found[8:] == list(range(8, 16))
    with pytest.raises(ZeroDivisionError):
        await batcher.submit(0)
    assert await batcher.submit(1) == 1
