"""Episodes of the size that web pages have, for the tests of the store."""

import hashlib

from bestofq.core.actions import Click, Write
from bestofq.core.decision import Candidate, Decision, Provenance, Step, Verdict
from bestofq.core.observation import Box, Element, Observation, Screenshot, Task
from bestofq.core.usage import Usage
from bestofq.store.schema import WRITERS
from bestofq.store.store import Store

PROVENANCE = Provenance(version="test", seed=3)
WON = Verdict(reward=1.0, outcome="success")
CUT = Verdict(reward=0.0, outcome="infra_error", reason="BrowserError: Chromium crashed")


def task(name: str = "t1", goal: str = "find a red kettle") -> Task:
    return Task(id=name, suite="shop", goal=goal, start_url="http://shop/", split="train")


def picture(data: bytes = b"\xff\xd8 a picture") -> Screenshot:
    sha256 = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=sha256, media_type="image/jpeg", width=1280, height=720, data=data)


def page(number: int, *, screenshot: Screenshot | None = None) -> Observation:
    elements = tuple(
        Element(mark=mark, role="link", name=f"Kettle {number} no. {mark}", box=Box(10.5, 20.0 * mark, 200.0, 18.0))
        for mark in range(1, 16)
    )
    text = "\n".join(f"{element.name} [{element.mark}] £{element.mark}.99" for element in elements)
    return Observation(url=f"http://shop/{number}", title="Shop", text=text, elements=elements, screenshot=screenshot)


def decision(chosen: int = 1, checkpoint: str | None = None) -> Decision:
    candidates = (
        Candidate(action=Click(mark=2), label="click link Kettle", thought="It is red.", log_prob=-0.25, reply="…"),
        Candidate(action=Write(mark=1, text='a "red" kettle', enter=True), label="write textbox Search"),
        Candidate(action=Click(mark=3), label="click link Other"),
    )
    usage = (Usage(role="proposer", tokens_in=800, tokens_out=30, calls=1, seconds=0.5),)
    return Decision(
        candidates=candidates,
        scores=(0.1, 0.7, -0.2),
        state_value=0.4,
        chosen=chosen,
        checkpoint=checkpoint,
        usage=usage,
    )


def step(
    index: int,
    number: int | None = None,
    *,
    screenshot: Screenshot | None = None,
    last: bool = False,
    checkpoint: str | None = None,
) -> Step:
    seen = page(index if number is None else number, screenshot=screenshot)
    made = decision(checkpoint=checkpoint)
    return Step(index=index, observation=seen, decision=made, reward=float(last), terminated=last)


async def begin(store: Store, name: str = "t1", steps: int = 1) -> str:
    """Begin an episode of the run `r` and the agent `a`, and take its first steps."""
    await store.begin_run("r", {}, PROVENANCE)
    episode = await store.begin_episode("r", "a", task(name), 0, PROVENANCE)
    for index in range(steps):
        await store.append_step(episode, step(index))
    return episode


def give_up(writer: Store) -> None:
    """As another process does that finds the writer dead."""
    with writer._engine.begin() as connection:
        connection.execute(WRITERS.delete())
