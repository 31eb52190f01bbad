"""What a program calls in one line, on real environments and a real store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_shop import SearchField
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse
from starlette.routing import Route

import bestofq as bq
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.errors import CheckpointError, ConfigError, DataError, InputError
from bestofq.core.observation import Element, Observation
from bestofq.learning.checkpoint import load_value, read_card
from bestofq.search.pairs import rollouts
from bestofq.testing import ScriptedProposer, ScriptedScorer, serve_app
from bestofq_sites.shipped import POCKET_Q


def first_link(state: bq.State, n: int) -> Sequence[str]:
    """Searches, then opens whatever the page lists."""
    if not state.decisions:
        return ['write [1] "red lamp"', "click [2]", "scroll down"][:n]
    return [f"click [{element.mark}]" for element in state.observation.elements[::-1]][:n]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[bq.Store]:
    with bq.Store.open(tmp_path) as opened:
        yield opened


async def test_played_tasks_are_kept_and_not_played_again(store: bq.Store) -> None:
    suite, asked = bq.load_suite("webshop"), []

    def replies(state: bq.State, n: int) -> Sequence[str]:
        asked.append(state.task.id)
        return first_link(state, n)

    agent = bq.Agent(name="first", proposer=ScriptedProposer(replies))
    found = await bq.play(agent, suite, store, tasks=3, repeats=2)
    wanted = {(task.id, repeat) for repeat in range(2) for task in (await suite.tasks("dev"))[:3]}
    assert {(one.key.task, one.key.repeat) for one in found} == wanted
    assert all(one.status == "finished" and 1 <= one.steps <= suite.step_limit for one in found)
    before = len(asked)
    again = await bq.play(agent, suite, store, tasks=4, repeats=2)
    assert {one.id for one in found} < {one.id for one in again}
    assert set(asked[before:]) == {(await suite.tasks("dev"))[3].id}


class Last:
    """A scorer."""

    async def score(self, state: bq.State, candidates: Sequence[bq.Candidate]) -> bq.Scores:
        return bq.Scores(values=tuple(map(float, range(len(candidates)))))


async def test_another_agent_of_the_same_name_does_not_get_the_first_ones_episodes(
    store: bq.Store, caplog: pytest.LogCaptureFixture
) -> None:
    suite, proposer = bq.load_suite("webshop"), ScriptedProposer(first_link)
    first = bq.Agent(name="mine", proposer=proposer)
    begun = Provenance(version="0.1.0")
    await store.begin_run("example", {"suite": suite.name}, begun)  # as it was before agents' parts were kept
    done = await bq.play(first, suite, store, tasks=2)
    assert not caplog.records
    assert await bq.play(first, suite, store, tasks=2) == done
    assert "all 2 episodes of mine were stored already in the run 'example'" in caplog.text
    kind = rf"{__name__}\.Last"
    said = rf"mine in run 'example' was begun with scorer_class=bestofq\..*ConstantScorer, and this has {kind}"
    with pytest.raises(DataError, match=said):
        await bq.play(replace(first, scorer=Last()), suite, store, tasks=2)
    with pytest.raises(DataError, match=r"begun with n=3, and this has 2: .* in Python n_candidates=3"):
        await bq.play(replace(first, n_candidates=2), suite, store, tasks=2)
    with pytest.raises(DataError, match=r"begun without localizer_class, and this has scripted_shop\.SearchField"):
        await bq.play(replace(first, localizer=SearchField()), suite, store, tasks=2)
    caplog.clear()
    played = await bq.play(replace(first, scorer=Last()), suite, store, tasks=2, run="again")
    assert not {one.id for one in played} & {one.id for one in done}
    assert not caplog.records


async def test_a_tree_of_so_many_rollouts_is_kept_and_replaced(store: bq.Store) -> None:
    suite = bq.load_suite("webshop")
    suite.step_limit = 5  # type: ignore[misc]
    task = (await suite.tasks("dev"))[0]
    proposer = ScriptedProposer(first_link)
    ranker = ScriptedScorer(lambda _, candidates: [1 - i / len(candidates) for i in range(len(candidates))])
    tree = await bq.search_tree(suite, task, proposer, store, ranker=ranker, iterations=4, candidates=2)
    assert store.trees.load("search", task.suite, task.id) == tree
    assert (tree.visits[0], max(tree.depth) <= 5, len(list(rollouts(tree)))) == (4, True, 4)
    assert tree.prior[1] == 1.0
    assert {one.role: one.calls > 1 for one in tree.usage} == {"proposer": True, "critic": True}
    smaller = await bq.search_tree(suite, task, proposer, store, iterations=1, candidates=2)
    assert store.trees.load("search", task.suite, task.id) == smaller
    assert (smaller.visits[0], smaller.prior[1]) == (1, None)


class InWords:
    """A proposer that names the field at the top in words."""

    async def propose(self, state: bq.State, n: int) -> bq.Proposal:
        action = bq.Write(target="the search field", text="red lamp", enter=True)
        return bq.Proposal(candidates=(bq.Candidate(action=action, label="write the search field"),))


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("shared_browser")
async def test_a_search_finds_what_is_named_in_words_by_its_localizer(store: bq.Store) -> None:
    suite, chosen = bq.load_suite("webshop", env="browser"), {"iterations": 1, "candidates": 1}
    suite.step_limit = 1  # type: ignore[misc]
    task = (await suite.tasks("dev"))[0]
    tree = await bq.search_tree(suite, task, InWords(), store, localizer=SearchField(), **chosen)
    page = tree.pages[tree.page[1]]
    assert page.error is None
    assert page.url.endswith("/search?q=red+lamp")


@pytest.mark.parametrize("sandboxed", [True, False])
async def test_a_search_buys_in_a_sandbox_alone(sandboxed: bool, store: bq.Store) -> None:
    suite = bq.load_suite("webshop")
    suite.sandboxed, suite.step_limit = sandboxed, 5  # type: ignore[misc]
    task = (await suite.tasks("dev"))[0]

    def buying(state: bq.State, n: int) -> Sequence[str]:
        match len(state.decisions):
            case 0:
                return ['write [1] "red lamp"']
            case 1 | 2:
                return ["click [2]"]  # the search, then what it found first
        return [f"click [{element.mark}]" for element in state.observation.elements if "Buy Now" in element.name]

    tree = await bq.search_tree(suite, task, ScriptedProposer(buying), store, iterations=2, candidates=2)
    bought = [node for node, found in enumerate(tree.candidate) if found and "Buy Now" in found.label]
    assert bought
    assert any(tree.page[node] >= 0 for node in bought) == sandboxed


@pytest.mark.parametrize(("name", "value"), [("iterations", 0), ("rollouts", 3)])
async def test_a_setting_that_search_has_not_is_named(name: str, value: int, store: bq.Store) -> None:
    suite = bq.load_suite("webshop")
    with pytest.raises(ConfigError, match=f"{name}={value}"):
        await bq.search_tree(suite, (await suite.tasks("dev"))[0], ScriptedProposer([]), store, **{name: value})


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("shared_browser")
async def test_a_visit_does_one_thing_and_leaves_open_whether_it_was_right(store: bq.Store) -> None:
    def page(_: HttpRequest) -> HTMLResponse:
        return HTMLResponse("<title>Lamps</title><a href='/lamp'>Red lamp</a><p>12 dollars</p>")

    agent = bq.Agent(name="reader", proposer=ScriptedProposer([['answer "12 dollars"']]))
    seen: list[str] = []
    async with serve_app(Starlette(routes=[Route("/", page)])) as url:
        episode = await bq.visit(
            "what does the lamp cost?", url, agent, store, on_decision=lambda _, d: seen.append(d.candidate.label)
        )
    assert (episode.verdict.outcome, len(episode.steps), seen) == ("unjudged", 1, ['answer "12 dollars"'])
    assert episode.steps[0].observation.title == "Lamps"
    stored = store.episode(episode.id)
    assert (stored.verdict, stored.steps[0].decision) == (episode.verdict, episode.steps[0].decision)
    with pytest.raises(InputError, match="ftp"):
        await bq.visit("anything", "ftp://lamps", agent, store)


@pytest.fixture(scope="module")
def ranker() -> bq.Ranker:
    return bq.Ranker.load()


async def test_each_step_is_ranked_as_the_agent_ranked_it(ranker: bq.Ranker, tmp_path: Path) -> None:
    models = Models(BestOfQSettings()).with_embedding(read_card(POCKET_Q).embed)
    agent = make_agent("best-of-q", models, load_value(POCKET_Q, embed=models.embedder.spec))
    with bq.Store.open(tmp_path) as store:
        [done] = await bq.play(agent, bq.load_suite("webshop"), store, tasks=1)
        episode = store.episode(done.id)
    chosen = 0
    for index, step in enumerate(episode.steps):
        past = [one.decision.candidate for one in episode.steps[:index]]
        found = await ranker.rank(episode.task.goal, step.observation, past, step.decision.candidates)
        assert found == (step.decision.chosen, pytest.approx(step.decision.scores, abs=1e-4))
        chosen += len(step.decision.candidates) > 1
    assert chosen


async def test_words_actions_and_candidates_are_the_same_and_it_may_be_asked_again(ranker: bq.Ranker) -> None:
    button = Element(mark=7, role="button", name="Buy Now")
    seen = Observation(url="", title="", text="Red shoes, $20 Buy Now [7]", elements=(button,))
    buy = bq.Click(mark=7)
    same = [bq.Candidate(action=buy, label="click button Buy Now"), buy, "click button Buy Now"]
    _, scores = await ranker.rank("red shoes", seen, ["back"], same)
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-5)
    _, again = await ranker.rank("red shoes", seen.text, ["back"], ["back", same[2]])
    assert again[1] == pytest.approx(scores[0], abs=1e-5)


async def test_what_cannot_be_ranked_is_refused(ranker: bq.Ranker, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 candidates"):
        await ranker.rank("red shoes", "", (), ())
    with pytest.raises(CheckpointError):
        bq.Ranker.load(tmp_path)
    with pytest.raises(ConfigError, match="pat"):
        bq.Ranker.load(pat="pocket")
