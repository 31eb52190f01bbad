"""A shop of four pages and scripted agents in it, for the tests of the viewer."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image, ImageDraw
from starlette.testclient import TestClient

from bestofq.agents.agent import Agent
from bestofq.core.actions import Action, Click
from bestofq.core.decision import Candidate, Episode, Provenance, State, StepResult
from bestofq.core.observation import Box, Element, Observation, Screenshot, Task
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.search.tree import MutableTree
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer, ScriptedScorer
from bestofq.viewer.app import viewer_app

PROVENANCE = Provenance(version="0.0-test", commit="0123456789abcdef", seed=3)
LAST = 3
LOOPBACK = "http://127.0.0.1:8760"


def shop_task(name: str = "kettles--0", goal: str = "find a red kettle") -> Task:
    return Task(id=name, suite="shop", goal=goal, start_url="http://shop/", split="test")


def picture(number: int) -> Screenshot:
    image = Image.new("RGB", (640, 360), "white")
    draw = ImageDraw.Draw(image)
    for mark in (1, 2):
        draw.rectangle((40, 80 * mark, 240, 80 * mark + 40), outline="black")
        draw.text((50, 80 * mark + 10), f"page {number}, link {mark}", fill="black")
    out = io.BytesIO()
    image.save(out, "PNG")
    data = out.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=digest, media_type="image/png", width=640, height=360, data=data)


def shop_page(number: int, words: str = "Kettle", *, pictured: bool = True, error: str | None = None) -> Observation:
    links = tuple(
        Element(mark=mark, role="link", name=f"{words} {mark}", box=Box(40.0, 80.0 * mark, 200.0, 40.0))
        for mark in (1, 2)
    )
    return Observation(
        url=f"http://shop/{number}",
        title=f"{words} shop, page {number}",
        text="\n".join((f"This is page {number}.", *(f"{link.name} [{link.mark}]" for link in links))),
        elements=links,
        screenshot=picture(number) if pictured else None,
        error=error,
    )


class ShopEnv:
    """Mark 2 leads on, mark 1 nowhere; the last page is the reward. `words` are what its pages say."""

    def __init__(self, words: str = "Kettle", *, pictured: bool = True) -> None:
        self.words, self.pictured, self.at = words, pictured, 0

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.at = 0
        return self._seen()

    async def step(self, action: Action) -> StepResult:
        on = isinstance(action, Click) and action.mark == 2
        self.at += on
        there = self.at == LAST
        return StepResult(
            observation=self._seen(None if on else self.words), reward=float(there), terminated=there or not on
        )

    async def close(self) -> None:
        return

    def _seen(self, error: str | None = None) -> Observation:
        return shop_page(self.at, self.words, pictured=self.pictured, error=error)


def shop_agent(name: str = "careful", words: str = "Kettle", *, hasty: bool = False) -> Agent:
    """Weighs both links at each step; a hasty one takes the wrong one at the second."""

    def scores(state: State, candidates: object) -> tuple[float, float]:
        wrong = hasty and len(state.decisions) == 1
        return (0.3, 0.9 if wrong else 0.2)

    replies = [f"{words} is what is asked.\nclick [2]", f"{words} may be here.\nclick [1]"]
    return Agent(
        name=name, proposer=ScriptedProposer(lambda state, n: replies), scorer=ScriptedScorer(scores), n_candidates=2
    )


def shop_tree(task: Task, words: str = "Kettle") -> MutableTree:
    """Three rollouts over three actions: both links of the first page, one of the second."""
    tree = MutableTree(task, shop_page(0, words))
    on, nowhere = (
        Candidate(action=Click(mark=mark), label=f"click link {words} {mark}", thought=words) for mark in (2, 1)
    )
    first, second = tree.child(0, on), tree.child(0, nowhere)
    tree.rank(tree.children[0], [0.4, 0.8])
    third = tree.child(first, on)
    for path, outcome in (([0, first], 1.0), ([0, first, third], 0.0), ([0, second], 0.0)):
        tree.backup(path, outcome)
    tree.seen[first] = shop_page(1, words)
    tree.ending[third] = "ended"
    return tree


async def play(
    store: Store, *agents: Agent, task: Task | None = None, run: str = "eval", env: ShopEnv | None = None
) -> list[Episode]:
    """Begin the run, and play the task with each agent."""
    await store.begin_run(run, {}, PROVENANCE)
    options = EpisodeOptions(provenance=PROVENANCE)
    where = {"store": store, "run": run, "options": options}
    return [await record_episode(agent, env or ShopEnv(), task or shop_task(), **where) for agent in agents]  # type: ignore[arg-type]


@contextmanager
def pages_of(folder: Path, **app: str) -> Iterator[TestClient]:
    """The pages of a store as their server answers."""
    with Store.open(folder, read_only=True) as store:
        yield TestClient(viewer_app(store, name="tests", **app), base_url=LOOPBACK)
