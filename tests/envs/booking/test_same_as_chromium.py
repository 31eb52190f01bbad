"""One site, two worlds: in Chromium and as text it says and does the same, word for word."""

import asyncio
import random

import pytest

from bestofq.browser.browser import Browser
from bestofq.core.actions import (
    Action,
    AskUser,
    Clear,
    Click,
    GoBack,
    Goto,
    Refresh,
    Restart,
    Scroll,
    Submit,
    Wait,
    Write,
)
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq_sites.booking.pages import COMPLETE
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from experiments.oracles.booking import BookingOracle

pytestmark = pytest.mark.asyncio(loop_scope="session")
EPISODES, STEPS = 4, 20
WORDS = ("Garden", "Ann Lee", "555-0101", " ann@example.com ", "4 people", "8", "7:30 pm", "two\nlines", "", "nowhere")


def random_action(seen: Observation, rng: random.Random) -> Action:
    """Any action on any element, and each other kind."""
    mark = rng.choice(seen.elements).mark if seen.elements else 1
    text = rng.choice(WORDS)
    return rng.choice(
        [
            *[Click(mark=mark)] * 4,
            *[Write(mark=mark, text=text), Write(mark=mark, text=text, enter=True)] * 2,
            *(Clear(mark=mark), Submit(mark=mark), Click(mark=99), AskUser(question="Where do you like to sit?")),
            *(GoBack(), GoBack(), Refresh(), Restart(), Scroll(), Wait(seconds=0.01)),
            *(Goto(url="/cities"), Goto(url=seen.url), Goto(url="/nowhere?x=1")),
        ]
    )


def same(text: Observation, web: Observation) -> None:
    """Equal but for layout, which a text has not."""
    flat = [
        e.model_copy(update={"box": None, "states": tuple(s for s in e.states if s != "offscreen")})
        for e in web.elements
    ]
    assert web.model_copy(update={"elements": tuple(flat)}) == text


async def both(web: LocalWebEnv, text: TextEnv, action: Action) -> StepResult:
    """Does it in both worlds; a text has no layout, so that it can always be scrolled."""
    ours, theirs = await text.step(action), await web.step(action)
    if isinstance(action, Scroll):
        theirs = theirs.model_copy(update={"observation": theirs.observation.model_copy(update={"error": None})})
    same(ours.observation, theirs.observation)
    assert (ours.reward, ours.terminated) == (theirs.reward, theirs.terminated)
    return ours


async def test_a_refused_form_the_way_back_and_a_saved_one_are_the_same(browser: Browser) -> None:
    suite = Booking()
    task = suite.tasks("train", 1)[0]
    goal, oracle = suite.goal(task.id), BookingOracle(suite, task.id)
    async with serve(suite) as site:
        web, text = LocalWebEnv(site, browser), TextEnv(suite)
        seen = await text.reset(task, seed=0)
        await web.reset(task, seed=0)
        while not any(element.name == COMPLETE for element in seen.elements):
            seen = (await both(web, text, oracle.advise(text, seen).action)).observation
        mark = {element.name: element.mark for element in seen.elements}
        for action in (
            *(Click(mark=mark[COMPLETE]), Write(mark=mark["Name"], text=goal.name), Submit(mark=mark["Phone"])),
            *(Submit(mark=mark["Phone"]), GoBack(), GoBack(), GoBack(), GoBack(), GoBack()),
        ):
            seen = (await both(web, text, action)).observation
        while not any(element.value == goal.phone for element in seen.elements):
            seen = (await both(web, text, oracle.advise(text, seen).action)).observation
        saved = await text.save(), await web.save()
        elsewhere = suite.tasks("dev", 1)[0]
        for _ in range(2):
            same(await text.restore(saved[0]), await web.restore(saved[1]))
            for action in (Restart(), GoBack(), Refresh(), GoBack(), GoBack()):
                await both(web, text, action)
            same(await text.reset(elsewhere, seed=0), await web.reset(elsewhere, seed=0))
        same(seen := await text.restore(saved[0]), await web.restore(saved[1]))
        result = await both(web, text, Click(mark=1))
        same(seen := await text.restore(saved[0]), await web.restore(saved[1]))
        while not result.terminated:
            result = await both(web, text, oracle.advise(text, seen).action)
            seen = result.observation
        assert result.reward == 1
        await web.close()


async def test_random_walks_find_no_difference(browser: Browser) -> None:
    suite = Booking()
    ended = 0

    async def walk(web: LocalWebEnv, text: TextEnv, task: Task, rng: random.Random) -> None:
        nonlocal ended
        oracle = BookingOracle(suite, task.id)
        seen = await text.reset(task, seed=0)
        same(seen, await web.reset(task, seed=0))
        for _ in range(STEPS):
            helped = rng.random() < 0.75  # else hardly a walk would come to a details form
            action = oracle.advise(text, seen).action if helped else random_action(seen, rng)
            result = await both(web, text, action)
            seen = result.observation
            if result.terminated:
                ended += 1
                break
        await web.close()

    async with serve(suite) as site:
        tasks = enumerate(suite.tasks("test", EPISODES))  # side by side
        walks = (walk(LocalWebEnv(site, browser), TextEnv(suite), task, random.Random(n)) for n, task in tasks)
        await asyncio.gather(*walks)
    assert ended >= 1
