"""Calls that wait for their turn at an endpoint."""

import asyncio

from bestofq.models.endpoint import RateLimit


async def test_a_call_that_is_given_up_as_its_turn_comes_leaves_it_to_the_next() -> None:
    pace = RateLimit(1)
    taken: list[str] = []

    async def call(name: str) -> None:
        async with pace.turn():
            taken.append(name)

    async with pace.turn():
        first, second = asyncio.create_task(call("first")), asyncio.create_task(call("second"))
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert taken == ["second"]


async def test_all_that_wait_get_their_turn_though_the_breaker_opens() -> None:
    pace = RateLimit(3, trip_after=2, cooldown=0.02)
    at_once, most = 0, 0

    async def call(number: int) -> None:
        nonlocal at_once, most
        async with pace.turn():
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.001)
            at_once -= 1
            if number < 6:
                pace.record_failure()
            else:
                pace.record_success()

    async with asyncio.timeout(5):
        await asyncio.gather(*(call(number) for number in range(60)))
    assert most == 3
    assert not pace.paused
