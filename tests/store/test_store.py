import asyncio
from collections.abc import AsyncIterator
from math import inf, isnan, nan

import pytest
import pytest_asyncio
from store_nouns import CUT, PROVENANCE, WON, decision, page, picture, step, task

from bestofq.core.decision import Episode, Verdict
from bestofq.core.errors import DataError, SupersededError
from bestofq.core.usage import Usage
from bestofq.store.location import Location
from bestofq.store.records import EpisodeKey
from bestofq.store.store import Store


@pytest_asyncio.fixture
async def store(where: Location) -> AsyncIterator[Store]:
    """A store in which the run `r` has begun."""
    with Store.open(where) as opened:
        await opened.begin_run("r", {}, PROVENANCE)
        yield opened


async def put(store: Store, name: str, repeat: int = 0, *, steps: int = 3, run: str = "r") -> str:
    episode = await store.begin_episode(run, "prompting", task(name), repeat, PROVENANCE)
    for index in range(steps):
        await store.append_step(episode, step(index, last=index == steps - 1))
    await store.finish_episode(episode, WON, page(steps))
    return episode


async def test_an_episode_is_read_back_as_it_was(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("r", {"epsilon": 0.5}, PROVENANCE)
        id_ = await put(store, "t1")
    with Store.open(where, read_only=True) as store:
        (episode,) = store.episodes()
        assert episode == store.episode(id_)
        assert store.runs()[0].config == {"epsilon": 0.5}
    assert episode == Episode(
        id=id_,
        run="r",
        agent="prompting",
        task=task("t1"),
        steps=(step(0), step(1), step(2, last=True)),
        final=page(3),
        verdict=WON,
        provenance=PROVENANCE,
    )
    assert episode.steps[0].decision == decision()


async def test_an_episode_that_has_ended_names_the_q_function_of_its_first_step(store: Store) -> None:
    won, left, running = [await store.begin_episode("r", "q", task(f"t{n}"), 0, PROVENANCE) for n in range(3)]
    for id_ in (won, left, running):
        for index in range(2):
            await store.append_step(id_, step(index, checkpoint=f"q-{index}"))
    await store.finish_episode(won, WON, None)
    await store.interrupt("r", "q", only=[left])
    added = Episode(id="e", run="r", agent="p", task=task(), steps=(step(0),), verdict=WON, provenance=PROVENANCE)
    await store.add_episode(added, 0)
    named = {one.id: one.checkpoint for one in store.summaries(status=None)}
    assert named == {won: "q-0", left: "q-0", running: None, "e": None}


async def test_an_episode_from_elsewhere_is_added_whole_under_its_own_id_and_once(where: Location) -> None:
    facts = {"run": "r", "agent": "other", "task": task("t1"), "provenance": PROVENANCE}
    won = Episode(
        id="abc", steps=(step(0, screenshot=picture()), step(1, last=True)), final=page(2), verdict=WON, **facts
    )
    cut = Episode(id="cut", steps=(), verdict=CUT, **facts)
    with Store.open(where) as store:
        with pytest.raises(DataError, match="abc"):  # no such run
            await store.add_episode(won, 0)
        await store.begin_run("r", {}, PROVENANCE)
        await store.add_episode(won, 3)
        await store.add_episode(cut, 0)
        for again, repeat in ((won, 4), (won.model_copy(update={"id": "def"}), 3)):
            with pytest.raises(DataError, match=again.id):
                await store.add_episode(again, repeat)
    with Store.open(where, read_only=True) as store:
        (found,) = store.episodes()
        assert found.model_dump() == won.model_dump()
        assert store.load_finished_keys("r", "other") == {EpisodeKey("shop", "t1", 3)}
        assert [one.id for one in store.summaries(status="cut")] == ["cut"]
        shot = found.steps[0].observation.screenshot
        assert shot is not None
        assert store.screenshots.load(shot).data == picture().data


async def test_numbers_that_json_does_not_have_are_read_back(store: Store) -> None:
    """A scorer of a user's own may say -∞ of an action never to take, and a value may be NaN."""
    odd = {"scores": (-inf, inf, 0.5), "state_value": nan, "chosen": 2}
    decided = step(0).model_copy(update={"decision": decision().model_copy(update=odd)})
    episode = await store.begin_episode("r", "a", task(), 0, PROVENANCE)
    await store.append_step(episode, decided)
    await store.finish_episode(episode, WON, None)
    (found,) = store.episodes()
    assert found.steps[0].decision.scores == (-inf, inf, 0.5)
    assert found.steps[0].decision.state_value is not None
    assert isnan(found.steps[0].decision.state_value)


async def test_pages_are_kept_once_and_pictures_by_their_content(store: Store, where: Location) -> None:
    episode = await store.begin_episode("r", "a", task(), 0, PROVENANCE)
    for index in range(3):
        await store.append_step(episode, step(index, number=9, screenshot=picture()))
    await store.finish_episode(episode, WON, None)
    read = store.episode(episode)
    assert read.steps[0].observation is read.steps[2].observation
    seen = read.steps[0].observation.screenshot
    assert seen.data == b""
    assert store.screenshots.load(seen) == picture()
    assert [path.name for path in (where.folder / "screenshots").rglob("*.*")] == [f"{seen.sha256}.jpg"]


async def test_a_picture_that_is_not_what_its_hash_says_is_refused(store: Store) -> None:
    wrong = picture().model_copy(update={"data": b"another"})
    episode = await store.begin_episode("r", "a", task(), 0, PROVENANCE)
    with pytest.raises(DataError, match="holds 7 bytes of"):
        await store.append_step(episode, step(0, screenshot=wrong))
    await store.append_step(episode, step(0, screenshot=picture()))
    with pytest.raises(DataError, match="holds no screenshot"):
        store.screenshots.load(picture(b"never seen"))


async def test_what_is_finished_cut_and_interrupted(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("r", {}, PROVENANCE)
        await put(store, "t1", 0)
        await put(store, "t1", 1)
        cut = await store.begin_episode("r", "prompting", task("t2"), 0, PROVENANCE)
        await store.finish_episode(cut, CUT, None)
        left = await store.begin_episode("r", "prompting", task("t3"), 0, PROVENANCE)
        await store.append_step(left, step(0))
    with Store.open(where) as store:
        assert store.load_finished_keys("r", "prompting") == {EpisodeKey("shop", "t1", 0), EpisodeKey("shop", "t1", 1)}
        assert store.load_finished_keys("r", "another") == set()
        assert await store.interrupt("r", "another") == 0
        assert await store.interrupt("r", "prompting") == 1
        (summary,) = store.summaries(run="r", agent="prompting", status="interrupted")
        assert (summary.id, summary.steps, summary.status, summary.outcome) == (left, 1, "interrupted", None)
        assert store.episode(left).steps == (step(0),)
        assert store.episode(left).verdict.outcome == "infra_error"
        assert [episode.id for episode in store.episodes(status="cut")] == [cut]
        with pytest.raises(SupersededError, match=cut):
            await store.finish_episode(cut, WON, None)


async def test_the_order_does_not_depend_on_which_ended_first(where: Location) -> None:
    with Store.open(where) as store:
        for run in ("b", "a"):
            await store.begin_run(run, {}, PROVENANCE)
            for name, repeat in (("t2", 0), ("t1", 1), ("t1", 0)):
                await put(store, name, repeat, steps=1, run=run)
        order = [(s.run, s.key.task, s.key.repeat) for s in store.summaries()]
        assert order == sorted(order)
        assert [(e.run, e.task.id) for e in store.episodes()] == [(run, name) for run, name, _ in order]
        assert [s.run for s in store.summaries(run="a", split="train", suite="shop")] == ["a"] * 3
        assert store.summaries(split="test") == []


async def test_a_slot_cannot_be_finished_twice(store: Store) -> None:
    first = await put(store, "t1")
    with pytest.raises(SupersededError, match=first):
        await store.begin_episode("r", "prompting", task("t1"), 0, PROVENANCE)
    second = await store.begin_episode("r", "prompting", task("t2"), 0, PROVENANCE)
    meanwhile = store.episode(first).model_copy(update={"id": "other", "task": task("t2")})
    await store.add_episode(meanwhile, 0)
    with pytest.raises(SupersededError, match=second):
        await store.finish_episode(second, WON, None)


async def test_a_run_keeps_its_configuration(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("r", {"a": 1, "b": 2}, PROVENANCE)
        await store.begin_run("r", {"b": 2, "a": 1}, PROVENANCE)
        with pytest.raises(DataError, match="run 'r' was begun with b=2, and this has 3: continue with --set b=2, or"):
            await store.begin_run("r", {"a": 1, "b": 3}, PROVENANCE)
        with pytest.raises(DataError, match="begun without c, and this has 4"):
            await store.begin_run("r", {"a": 1, "b": 2, "c": 4}, PROVENANCE)
        with pytest.raises(DataError, match="no run 'q'"):
            await store.begin_episode("q", "a", task(), 0, PROVENANCE)


async def test_what_searches_in_a_run_depend_on_is_kept_from_the_first_of_each_on(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("r", {"a": 1}, PROVENANCE)  # no search yet
        before = store.runs()[0].config_hash
        await store.begin_run("r", {"a": 1}, PROVENANCE, agents={"mcts": {"depth": 3}})
        await store.begin_episode("r", "mcts", task(), 0, PROVENANCE)
        await store.begin_run("r", {"a": 1}, PROVENANCE)
        await store.begin_run("r", {"a": 1}, PROVENANCE, agents={"trees": {"depth": 9}})
        kept = {"a": 1, "agents": {"mcts": {"depth": 3}, "trees": {"depth": 9}}}
        assert store.runs()[0].config == kept
        assert store.runs()[0].config_hash != before
        for who, depth in (("mcts", 3), ("trees", 9)):
            with pytest.raises(DataError, match=rf"{who} in run 'r' was begun with depth={depth}, and this has 4"):
                await store.begin_run("r", {"a": 1}, PROVENANCE, agents={who: {"depth": 4}})
        assert store.runs()[0].config == kept


async def test_one_bad_step_does_not_spoil_the_steps_beside_it(store: Store) -> None:
    ids = [await store.begin_episode("r", "a", task(f"t{n}"), 0, PROVENANCE) for n in range(20)]
    jobs = [store.append_step(id_, step(0)) for id_ in (*ids, "nobody")]
    *good, bad = await asyncio.gather(*jobs, return_exceptions=True)
    assert good == [None] * 20
    assert isinstance(bad, Exception)
    assert all(len(store.episode(id_).steps) == 1 for id_ in ids)


SAID = Verdict(reward=0.0, outcome="blocked", judge="j", usage=(Usage(role="judge", calls=1, usd=0.01),))


async def test_judges_verdicts_stand_beside_or_take_the_place_of_none(where: Location) -> None:
    open_ = Verdict(reward=0.0, outcome="unjudged")
    with Store.open(where) as store:
        await store.begin_run("r", {}, PROVENANCE)
        won = await put(store, "t1")
        nobodys = await store.begin_episode("r", "prompting", task("t2"), 0, PROVENANCE)
        with pytest.raises(DataError, match="not finished"):
            await store.add_verdict(nobodys, SAID, adopt=False)
        await store.finish_episode(nobodys, open_, None)
        await store.add_verdict(won, SAID, adopt=False)
        with pytest.raises(DataError, match="verdict of its environment"):
            await store.add_verdict(won, SAID, adopt=True)
        await store.add_verdict(nobodys, SAID, adopt=True)
        later = SAID.model_copy(update={"outcome": "success", "reward": 1.0})
        await store.add_verdict(nobodys, later, adopt=True)
    with Store.open(where, read_only=True) as store:
        assert store.episode(won).verdict == WON
        assert store.episode(nobodys).verdict == later
        assert store.verdicts(run="r") == {"j": {won: SAID, nobodys: later}}
        assert store.verdicts(judge="k") == store.verdicts(run="q") == {}
        assert [(summary.judge, summary.decided) for summary in store.summaries()] == [("", True), ("j", True)]
