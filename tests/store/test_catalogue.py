"""Lists of what a store holds, a part at a time."""

import asyncio
from collections.abc import Iterator

import pytest
from store_nouns import CUT, PROVENANCE, WON, page, step, task

from bestofq.core.decision import Verdict
from bestofq.store.catalogue import Catalogue, Place
from bestofq.store.location import Location
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store

LOST = Verdict(reward=0.0, outcome="failure", reason='it says "outcome":"success" there')


async def fill(where: Location) -> None:
    with Store.open(where) as store:
        for run in ("a", "b"):
            await store.begin_run(run, {}, PROVENANCE)
        for run, agent, name, verdict, second in (
            ("a", "one", "kettles--0", WON, 0),
            ("a", "one", "kettles--1", WON, 1),
            ("a", "one", "100%_mugs/0", LOST, 2),
            ("a", "two", "kettles--0", LOST, 3),
            ("a", "two", "kettles--1", WON, 4),
            ("a", "two", "100%_mugs/0", LOST, 5),
            ("b", "one", "kettles--0", CUT, 20),
            ("b", "one", "kettles--0", None, 30),
        ):
            provenance = PROVENANCE.model_copy(update={"started_at": f"2026-01-01T00:00:{second:02}+00:00"})
            episode = await store.begin_episode(run, agent, task(name, f"goal of {name}"), 0, provenance)
            for index in range(2):
                await store.append_step(episode, step(index))
            if verdict is not None:
                await store.finish_episode(episode, verdict, page(9))


@pytest.fixture(scope="module", params=["folder", "postgresql"])
def catalogue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    """Run `a`: two agents on three tasks; run `b`: one episode cut, one running."""
    folder = str(tmp_path_factory.mktemp("catalogue"))
    where = Location(folder) if request.param == "folder" else Location(request.getfixturevalue("server"), folder)
    asyncio.run(fill(where))
    with Store.open(where, read_only=True) as store:
        yield store.catalogue


def test_the_place_of_an_episode_in_a_list(catalogue: Catalogue) -> None:
    wanted = EpisodeFilter(run="a", outcome="success")
    listed = catalogue.episodes(wanted)
    for number, episode in enumerate(listed, 1):
        around = [None, *(e.id for e in listed), None]
        assert catalogue.beside(episode, wanted) == Place(around[number - 1], around[number + 1], number, 3)
    _, lost, *_ = catalogue.episodes(EpisodeFilter(agent="two", outcome="failure"))  # began between two of them
    assert catalogue.beside(lost, wanted) == Place(listed[0].id, listed[1].id, 2, 3)


def test_episodes_are_narrowed(catalogue: Catalogue) -> None:
    for wanted, count in (
        (EpisodeFilter(), 8),
        (EpisodeFilter(run="a"), 6),
        (EpisodeFilter(agent="two"), 3),
        (EpisodeFilter(suite="shop"), 8),
        (EpisodeFilter(suite="other"), 0),
        (EpisodeFilter(task="kettles--0"), 4),
        (EpisodeFilter(outcome="success"), 3),
        (EpisodeFilter(outcome="failure"), 3),
        (EpisodeFilter(outcome="infra_error"), 1),
        (EpisodeFilter(outcome="running"), 1),
        (EpisodeFilter(outcome="interrupted"), 0),
        (EpisodeFilter(find="Kettles"), 6),
        (EpisodeFilter(find="%_mugs"), 2),
        (EpisodeFilter(find="_"), 2),
        (EpisodeFilter(run="a", agent="one", outcome="success", find="kettles"), 2),
    ):
        assert catalogue.count(wanted) == len(catalogue.episodes(wanted)) == count, wanted


def test_episodes_come_newest_first_and_in_parts(catalogue: Catalogue) -> None:
    every = catalogue.episodes(EpisodeFilter())
    assert [summary.started_at[17:19] for summary in every] == ["30", "20", "05", "04", "03", "02", "01", "00"]
    parts = [catalogue.episodes(EpisodeFilter(), offset=offset, limit=3) for offset in (0, 3, 6)]
    assert [summary for part in parts for summary in part] == every
    assert every[0].steps == 2


def test_tasks_come_with_their_episodes(catalogue: Catalogue) -> None:
    tasks = catalogue.tasks(EpisodeFilter(run="a"))
    agents = [(t.id, [e.agent for e in some]) for t, some in tasks]
    assert agents == [(name, ["one", "two"]) for name in ("100%_mugs/0", "kettles--0", "kettles--1")]
    assert tasks[1][0].goal == "goal of kettles--0"
    assert [t.id for t, _ in catalogue.tasks(EpisodeFilter(run="a"), differing=True)] == ["kettles--0"]
    assert catalogue.count_tasks(EpisodeFilter(run="a"), differing=True) == 1
    assert catalogue.count_tasks(EpisodeFilter(agent="one"), differing=True) == 0  # nothing differs
    assert [t.id for t, _ in catalogue.tasks(EpisodeFilter(), offset=1, limit=1)] == ["kettles--0"]


def test_agents_are_counted(catalogue: Catalogue) -> None:
    found = [(a.run, a.agent, a.episodes, a.running, a.decided, a.successes) for a in catalogue.agents()]
    assert found == [("a", "one", 3, 0, 3, 2), ("a", "two", 3, 0, 3, 1), ("b", "one", 2, 1, 0, 0)]
    assert [a.agent for a in catalogue.agents(run="a")] == ["one", "two"]
    assert catalogue.runs() == ["b", "a"]
    choices = catalogue.choices(run="b")
    assert (choices.runs, choices.agents) == (("a", "b"), ("one",))


def test_an_episode_is_read_with_its_summary(catalogue: Catalogue) -> None:
    summary = catalogue.episodes(EpisodeFilter(run="a", agent="one", task="kettles--0"))[0]
    found = catalogue.episode(summary.id)
    assert found is not None
    same, read = found
    assert (same, read.task, read.provenance.seed) == (summary, task("kettles--0", "goal of kettles--0"), 3)
    assert [s.index for s in read.steps] == [0, 1]
    assert read.steps[1].decision == step(1).decision
    assert read.steps[1].observation == step(1).observation
    assert read.final == page(9)
    assert catalogue.episode("none") is None
