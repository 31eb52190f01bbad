"""A store of scripted episodes in a small shop, for the tests of reports."""

import hashlib
from base64 import b64decode
from collections.abc import Iterable

from bestofq.core.actions import Click, Scroll, Write
from bestofq.core.decision import Candidate, Decision, Outcome, Provenance, Step, Verdict
from bestofq.core.observation import Box, Element, Observation, Screenshot, Task
from bestofq.core.usage import Usage
from bestofq.reports.success import Grouping, GroupResult
from bestofq.store.store import Store

PROVENANCE = Provenance(version="0.0-test", commit="0123456789abcdef", seed=3)
_DOT = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def task(name: str, goal: str = "find a red kettle under £30") -> Task:
    return Task(id=name, suite="shop", goal=goal, start_url="http://shop/", split="test")


def of(results: Grouping, agent: str) -> GroupResult:
    return next(row for row in results.rows if row.agent == agent)


def picture(data: bytes = _DOT) -> Screenshot:
    digest = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=digest, media_type="image/png", width=1280, height=720, data=data)


def page(number: int, words: str = "Kettle", screenshot: Screenshot | None = None) -> Observation:
    elements = tuple(
        Element(mark=mark, role="link", name=f"{words} {mark}", box=Box(40.0, 120.0 * mark, 300.0, 60.0))
        for mark in (1, 2, 3)
    )
    return Observation(
        url=f"http://shop/{number}",
        title=f"{words} shop",
        text="\n".join(f"{element.name} [{element.mark}]" for element in elements),
        elements=elements,
        screenshot=screenshot,
    )


def decision(
    scores: tuple[float, float, float] = (0.2, 0.6, 0.1),
    *,
    chosen: int = 1,
    value: float | None = 0.5,
    words: str = "Kettle",
    explored: bool = False,
) -> Decision:
    candidates = (
        Candidate(action=Scroll(), label="scroll down", thought="There may be more.", log_prob=-0.4),
        Candidate(
            action=Click(mark=2), label=f"click link {words} 2", thought=f"{words} is what is asked.", log_prob=-1.2
        ),
        Candidate(action=Write(mark=1, text="red", enter=True), label='write textbox Search "red" enter'),
    )
    usage = (Usage(role="proposer", tokens_in=800, tokens_out=30), Usage(role="embedder", tokens_in=200))
    return Decision(
        candidates=candidates, scores=scores, state_value=value, chosen=chosen, explored=explored, usage=usage
    )


def scored_by(checkpoint: str | None) -> list[Step]:
    """One step, chosen by this Q-function."""
    return [Step(index=0, observation=page(0), decision=decision().model_copy(update={"checkpoint": checkpoint}))]


async def record(
    store: Store,
    agent: str,
    what: Task,
    repeat: int,
    steps: Iterable[Step] | int,
    outcome: Outcome = "success",
    *,
    run: str = "eval",
    reason: str = "",
) -> str:
    """A finished episode (cut, where the outcome is infra_error) and its id."""
    episode = await store.begin_episode(run, agent, what, repeat, PROVENANCE)
    if isinstance(steps, int):
        steps = [Step(index=i, observation=page(i), decision=decision()) for i in range(steps)]
    for step in steps:
        await store.append_step(episode, step)
    reward = 1.0 if outcome == "success" else 0.0
    await store.finish_episode(episode, Verdict(reward=reward, outcome=outcome, reason=reason), page(99))
    return episode
