"""What the pocket model is taught in Agent Q's format can be read back, and leads to the goal."""

import random
from collections.abc import AsyncIterator

import pytest

from bestofq.agents.dialects.composite import parse_composite
from bestofq.core.observation import Element, Observation
from bestofq_sites.booking.restaurants import BookingConfig
from bestofq_sites.booking.suite import Booking
from bestofq_sites.webshop.suite import synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.pocket_models.composite import CompositeDemonstrations, walk_booking, walk_shop
from experiments.pocket_models.examples import Example

ANY = Observation(
    url="u", title="t", text="", elements=tuple(Element(mark=m, role="link", name=str(m)) for m in range(1, 60))
)


async def walks(suite: str, skill: float, count: int = 12, **more: float) -> list[list[Example]]:
    config = CompositeDemonstrations(noise=0.0, skill=skill, **more)
    rng = random.Random(0)
    found: list[AsyncIterator[Example]] = []
    if suite == "booking":
        booking = Booking(BookingConfig(seed=1))
        found = [walk_booking(config, booking, task, rng) for task in booking.tasks("train", count)]
    else:
        shop = synthetic_suite(SyntheticConfig(seed=1))
        found = [walk_shop(config, shop, shop.server("train"), task, rng) for task in shop.tasks("train", count)]
    return [[example async for example in walk] for walk in found]


@pytest.mark.parametrize("suite", ["booking", "webshop"])
async def test_each_reply_follows_its_prompt_and_is_read_back(suite: str) -> None:
    for walk in await walks(suite, 1.0):
        for number, ((prompt, reply),) in enumerate(walk):
            assert prompt.endswith("PLAN:" if number == 0 else "THOUGHT:")
            candidate = parse_composite(reply, ANY)
            assert bool(candidate.plan) == (number == 0)
            assert candidate.thought
            assert candidate.explanation
            if number:
                assert f"plan: {parse_composite(walk[0][0].reply, ANY).plan}" in prompt
