"""The way back to a page that has changed: each element is found again by what it is, or nothing is done."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from branch_world import TASK, BranchEnv, RestoringEnv, both_doors, run_search
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.agents.agent import Agent
from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Click, Goto, Write
from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Scores, State, Step, StepResult
from bestofq.core.observation import Box, Element, Observation, Point, Task
from bestofq.core.protocols import Env, Proposer, Scorer
from bestofq.core.repeating import DivergedError, find_again
from bestofq.envs.web import WebEnv
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.resuming import claim_orphans
from bestofq.safety.irreversible import irreversible
from bestofq.search.backtracking import Backtracker
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search, state_after
from bestofq.search.tree import MutableTree
from bestofq.search.tree_scorer import FoundProposer, TreeScorer
from bestofq.store.store import Store
from bestofq.testing import serve_app
from bestofq.testing.scripted import ScriptedProposer


def buttons(*names: str, laid_out: bool = True, over: Sequence[Element] = ()) -> Observation:
    """One below the other, 20 pixels high, and what lies over them."""
    elements = tuple(
        Element(mark=i, role="button", name=name, box=Box(0, 20 * i, 50, 20) if laid_out else None)
        for i, name in enumerate(names, 1)
    )
    return Observation(url="x://", title="", text="", elements=(*elements, *over))


def test_an_element_is_found_again_by_role_name_and_position() -> None:
    before = buttons("Continue", "Add", "Add")
    now = buttons("Delete account", "Continue", "Add", "Help", "Add")
    assert find_again(Click(mark=1), before, now) == Click(mark=2)
    assert find_again(Click(mark=2), before, now) == Click(mark=3)
    assert find_again(Write(mark=3, text="a"), before, now) == Write(mark=5, text="a")
    assert find_again(Goto(url="x://y"), before, now) == Goto(url="x://y")
    assert find_again(Click(mark=9), before, now) == Click(mark=9)  # there was none, and there is none
    assert find_again(Click(point=Point(7, 25)), before, now) == Click(point=Point(7, 45))
    assert find_again(Click(point=Point(300, 300)), before, now) == Click(point=Point(300, 300))


OVER = Element(mark=4, role="button", name="Delete account", box=Box(2, 22, 10, 10))


@pytest.mark.parametrize(
    ("action", "now"),
    [
        pytest.param(Click(mark=1), buttons("Delete account", "Add", "Add"), id="it is gone"),
        pytest.param(Click(mark=2), buttons("Continue", "Add"), id="one of two alike is gone"),
        pytest.param(Click(mark=4), buttons("Continue", "Add", "Add", "Delete account"), id="there was none"),
        pytest.param(Click(point=Point(7, 25)), buttons("Continue", "Add", "Add", laid_out=False), id="no layout"),
        pytest.param(Click(point=Point(7, 25)), buttons("Continue", "Add", "Add", over=[OVER]), id="another covers it"),
    ],
)
def test_what_is_not_found_again_is_not_carried_out(action: Action, now: Observation) -> None:
    with pytest.raises(DivergedError):
        find_again(action, buttons("Continue", "Add", "Add"), now)


class Renumbering(BranchEnv):
    """From its second episode on, the doors of every page have each other's numbers."""

    episodes = 0

    def page(self) -> Observation:
        seen = super().page()
        if self.episodes < 2:
            return seen
        doors = [door.model_copy(update={"mark": i}) for i, door in enumerate(reversed(seen.elements), 1)]
        return seen.model_copy(update={"elements": tuple(doors)})

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.episodes += 1
        return await super().reset(task, seed=seed)

    async def step(self, action: Action) -> StepResult:
        assert isinstance(action, Click)
        (door,) = (door for door in self.page().elements if door.mark == action.mark)
        return await super().step(Click(mark=int(door.name.split()[1])))


async def test_a_search_of_pages_that_are_renumbered_finds_the_same_tree() -> None:
    steps: list[str] = []
    rewards = {"21": 1.0, "12": 0.5}
    make = partial(Renumbering, rewards, depth=2, steps=steps)
    changed, _, _ = await run_search(rewards, depth=2, iterations=4, doors=by_name, make=make)
    plain, _, _ = await run_search(rewards, depth=2, iterations=4)
    assert "pruned" not in changed.tree.ending
    assert [seen and seen.url for seen in changed.tree.seen] == [seen and seen.url for seen in plain.tree.seen]
    assert changed.tree.value == plain.tree.value


def by_name(state: State, _n: int) -> Sequence[str]:
    """Door 1 first, whatever its number."""
    doors = sorted(state.observation.elements, key=lambda door: door.name)
    return [f"click [{door.mark}]" for door in doors]


async def test_an_action_that_was_not_tried_yet_is_found_again_too() -> None:
    """A page that was put back has an advertisement before all else."""

    class Advertising(RestoringEnv):
        ad = False

        def page(self) -> Observation:
            names = [*(["advertisement"] if self.ad else []), *(f"link {i}" for i in range(20)), "door 1", "door 2"]
            links = tuple(Element(mark=i, role="link", name=name) for i, name in enumerate(names, 1))
            return super().page().model_copy(update={"elements": links})

        async def restore(self, saved: object) -> Observation:
            self.ad = True
            return await super().restore(saved)

        async def step(self, action: Action) -> StepResult:
            assert isinstance(action, Click)
            assert action.mark is not None
            clicked.append(self.page().elements[action.mark - 1].name)
            return await super().step(Click(mark=int(clicked[-1].split()[1])))

    def doors(state: State, _n: int) -> Sequence[str]:
        return [f"click [{e.mark}]" for e in state.observation.elements if e.name.startswith("door")]

    clicked: list[str] = []
    make = partial(Advertising, {}, depth=1, steps=[])
    await run_search({}, depth=1, iterations=2, make=make, doors=doors)
    assert clicked == ["door 1", "door 2"]


async def test_a_search_that_begins_late_carries_out_again_what_the_agent_did() -> None:
    """The agent takes a door that the search did not, so a new tree begins behind it."""

    async def make_env() -> Env:
        env = Renumbering({"21": 1.0}, depth=2, steps=[])
        env.episodes = 1
        return env

    proposer = ScriptedProposer(by_name)
    config = SearchConfig(iterations=1, candidates=2)
    scorer = TreeScorer(make_env, partial(Search, proposer=proposer, ranker=None, depth=2), config)
    env = BranchEnv({}, depth=2, steps=[])
    hall = State(task=TASK, observation=await env.reset(TASK, seed=0))
    doors = (await proposer.propose(hall, 2)).candidates
    assert (await scorer.score(hall, doors)).visits == (1, 0)
    behind = state_after(hall, doors[1:], (await env.step(doors[1].action)).observation)
    scores = await scorer.score(behind, (await proposer.propose(behind, 2)).candidates)
    assert scores.values == (1.0, 0.0)
    await scorer.aclose()


PAGES = {
    "/": [
        "<a href=/next>Continue</a> <a href=/delete>Delete account</a>",
        "<a href=/delete>Delete account</a> <a href=/next>Continue</a>",
    ],
    "/next": ["<a href=/a>Door A</a> <a href=/b>Door B</a>"],
}
GONE = {"/": [PAGES["/"][0], "<a href=/delete>Delete account</a>"]}
ASKED = {
    "/": [
        f"<p>{question}?</p><button onclick=\"location='{path}'\">Yes</button>"
        for question, path in (("Go on to the next page", "/next"), ("Delete your account", "/delete"))
    ],
}


class Site:
    """Pages by path, one after the other each time they are asked for, the last for good."""

    task: Task

    def __init__(self) -> None:
        self.pages = PAGES
        self.asked: list[str] = []

    async def page(self, request: Request) -> HTMLResponse:
        path = request.url.path
        self.asked.append(path)
        bodies = self.pages.get(path) or [path]
        body = bodies[min(self.asked.count(path), len(bodies)) - 1]
        return HTMLResponse(f"<!doctype html><title>{path}</title>{body}")


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    made = Site()
    async with serve_app(Starlette(routes=[Route("/{path:path}", made.page)])) as url:
        host = url.removeprefix("http://")
        made.task = Task(id="t", suite="s", goal="door B", start_url=f"{url}/", allowed_hosts=(host,))
        yield made


def visitor(state: State, _n: int) -> Sequence[str]:
    """Any door, or what leads to them."""
    named = {element.name: element.mark for element in state.observation.elements}
    return [f"click [{named[name]}]" for name in ("Door A", "Door B", "Continue", "Yes") if name in named]


async def searched(site: Site, browser: Browser) -> Search:
    """Two rollouts, the second of which goes back over the first page."""

    async def at_the_end(task: Task, action: Action, seen: Observation) -> tuple[float, bool]:
        return float(seen.title == "/b"), seen.title in ("/a", "/b", "/delete")

    async def make_env() -> Env:
        return WebEnv(browser, screenshots=False, evaluate=at_the_end)

    config = SearchConfig(iterations=2, candidates=2)
    envs = Backtracker(make_env, site.task, config, lambda page, action: irreversible(action, page) is not None)
    root = await envs.start()
    tree, state = MutableTree(site.task, root), State(task=site.task, observation=root)
    search = Search(tree, state, envs, proposer=ScriptedProposer(visitor), ranker=None, depth=2)
    await search.run()
    await envs.aclose()
    return search


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_continue_is_clicked_again_and_not_what_has_its_number_now(site: Site, browser: Browser) -> None:
    search = await searched(site, browser)
    assert [path for path in site.asked if path != "/favicon.ico"] == ["/", "/next", "/a", "/", "/next", "/b"]
    assert search.tree.is_solved(0)
    assert "pruned" not in search.tree.ending


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("changed", [GONE, ASKED], ids=["the link is gone", "the button asks something else"])
async def test_a_branch_is_closed_where_its_way_is_not_found_again(
    site: Site, browser: Browser, changed: dict[str, list[str]]
) -> None:
    site.pages = {**PAGES, **changed}
    search = await searched(site, browser)
    assert "/delete" not in site.asked
    assert site.asked.count("/next") == 1
    assert "pruned" in search.tree.ending
    assert search.tree.visits[0] == 1


REWARDS = {"2121": 1.0}


def world(
    *,
    stop_at_success: bool = False,
    ranker: Scorer | None = None,
    doors: Callable[[State, int], Sequence[str]] = both_doors,
) -> tuple[TreeScorer, list[str]]:
    steps: list[str] = []

    async def make_env() -> RestoringEnv:
        return RestoringEnv(REWARDS, depth=4, steps=steps)

    config = SearchConfig(iterations=30, candidates=2, stop_at_success=stop_at_success)
    proposer = ScriptedProposer(doors)
    return TreeScorer(make_env, partial(Search, proposer=proposer, ranker=ranker, depth=4), config), steps


async def play(scorer: TreeScorer, proposer: Proposer | None = None) -> tuple[str, list[Decision]]:
    proposer = proposer or ScriptedProposer(both_doors)
    agent = Agent(name="mcts", proposer=proposer, scorer=scorer, n_candidates=2)
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    observation = await env.reset(TASK, seed=0)
    decisions: list[Decision] = []
    while len(decisions) < 4:
        state = State(task=TASK, decisions=tuple(decisions), observation=observation)
        decisions.append(await agent.decide(state, np.random.default_rng(0)))
        observation = (await env.step(decisions[-1].candidate.action)).observation
    return env.way, decisions


async def test_an_agent_that_searches_finds_the_way_that_its_proposer_would_not() -> None:
    scorer, steps = world()
    way, decisions = await play(scorer)
    assert way == "2121"
    assert len(steps) == len(set(steps))  # one tree for the whole episode
    assert [d.chosen for d in decisions] == [1, 0, 1, 0]
    assert all(0 <= score <= 1.001 for d in decisions for score in d.scores)
    assert (decisions[-1].state_value or 0.0) > 0.5
    await scorer.aclose()


async def test_a_decision_keeps_what_its_search_knew_of_each_candidate() -> None:
    class Learned:
        async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
            return Scores(values=(0.5,) * len(candidates), checkpoint="value-1")

    scorer, _ = world(ranker=Learned())
    _, decisions = await play(scorer)
    assert {decision.checkpoint for decision in decisions} == {"value-1"}
    assert {decision.feedback for decision in decisions} == {(0.5, 0.5)}
    for decision in decisions:
        assert decision.visits[decision.chosen] > 0
    await scorer.aclose()
    plain, _ = world()
    (first, *_) = (await play(plain))[1]
    assert (first.checkpoint, first.feedback) == (None, None)
    assert first.visits is not None
    await plain.aclose()


async def test_an_agent_follows_what_its_search_found_without_asking_the_model_again() -> None:
    scorer, steps = world(stop_at_success=True)
    asked: list[int] = []

    def doors(state: State, n: int) -> Sequence[str]:
        asked.append(len(state.decisions))
        return both_doors(state, n)

    way, decisions = await play(scorer, FoundProposer(scorer, ScriptedProposer(doors)))
    assert way == "2121"
    assert asked == [0]
    assert steps.index("2121") == len(steps) - 1  # nothing was search_before_each_step after the success
    assert all(d.candidates[d.chosen].action == Click(mark=int(mark)) for d, mark in zip(decisions, way, strict=True))
    await scorer.aclose()


async def test_an_agent_chooses_among_what_its_search_has_tried_whatever_else_the_model_would_draw() -> None:
    asked: list[int] = []

    def second_draw(state: State, _n: int) -> Sequence[str]:
        asked.append(len(state.decisions))
        return ["click [2]"] if state.decisions else both_doors(state, 2)

    scorer, _ = world()
    way, decisions = await play(scorer, FoundProposer(scorer, ScriptedProposer(second_draw)))
    assert way == "2121"
    assert asked == [0]
    assert [len(decision.candidates) for decision in decisions] == [2] * 4
    await scorer.aclose()


async def test_a_candidate_that_the_tree_has_not_is_tried_too() -> None:
    scorer, _ = world(doors=lambda _state, _n: ["click [1]"])
    _, decisions = await play(scorer)
    assert [min(decision.visits or [0]) > 0 for decision in decisions[:3]] == [True] * 3
    await scorer.aclose()


async def test_on_a_page_with_other_numbers_the_model_is_asked_again() -> None:
    scorer, _ = world()
    _, decisions = await play(scorer)
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    await env.reset(TASK, seed=0)
    behind = (await env.step(decisions[0].candidate.action)).observation
    swapped = tuple(door.model_copy(update={"mark": 3 - door.mark}) for door in behind.elements)
    state = State(task=TASK, decisions=tuple(decisions[:1]), observation=behind)
    assert len(scorer.found(state, 2)) == 2
    elsewhere = behind.model_copy(update={"elements": swapped})
    assert scorer.found(state.model_copy(update={"observation": elsewhere}), 2) == ()
    await scorer.aclose()


async def test_where_the_search_cannot_come_to_the_agents_page_nothing_is_claimed() -> None:
    scorer, steps = world()
    proposer = ScriptedProposer(both_doors)
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    observation = (await env.reset(TASK, seed=0)).model_copy(update={"url": "branch://elsewhere"})
    state = State(task=TASK, observation=observation)
    scores = await scorer.score(state, (await proposer.propose(state, 2)).candidates)
    assert scores.values == (0.0, 0.0)
    assert scores.state_value == 0.0
    assert steps == []
    await scorer.aclose()


class Died(BaseException):
    """As a kill leaves it: nothing is caught, nothing tidied."""


async def search_before_each_step(
    store: Store, begun: Episode | None = None, dies_after: int | None = None, made: list[BranchEnv] | None = None
) -> Episode:
    """An episode by search, in environments that cannot be put back; `made`: takes these."""
    made = [] if made is None else made

    async def make_env() -> BranchEnv:
        made.append(BranchEnv(REWARDS, depth=4, steps=[]))
        return made[-1]

    def stepped(step: Step) -> None:
        if step.index + 1 == dies_after:
            raise Died

    proposer = ScriptedProposer(both_doors)
    config = SearchConfig(iterations=30, candidates=2)
    scorer = TreeScorer(make_env, partial(Search, proposer=proposer, ranker=None, depth=4), config)
    agent = Agent(name="mcts", proposer=proposer, scorer=scorer, n_candidates=2)
    options = EpisodeOptions(on_step=stepped)
    return await record_episode(agent, await make_env(), TASK, store=store, run="r", options=options, begun=begun)


async def test_once_an_episode_has_ended_what_it_was_search_before_each_step_in_is_closed(tmp_path: Path) -> None:
    made: list[BranchEnv] = []
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        await search_before_each_step(store, made=made)
    played, *others = made
    assert (played.way, {env.way for env in others}) == ("2121", {"closed"})


async def test_an_episode_that_goes_on_in_another_process_is_search_before_each_step_from_its_page(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        with pytest.raises(Died):
            await search_before_each_step(store, dies_after=2)
        [begun] = (await claim_orphans(store, "r", "mcts", lambda _: True, None)).values()
        ended = await search_before_each_step(store, begun)
        assert (ended.id, ended.verdict.reward) == (begun.id, 1.0)
        assert [step.decision.chosen for step in ended.steps] == [1, 0, 1, 0]
        assert ended.steps[:2] == begun.steps
