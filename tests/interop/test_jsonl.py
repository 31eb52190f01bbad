"""Our own JSON lines, and what any import does."""

import asyncio
import re
from pathlib import Path

import pytest
from logs import bestofq, counts, imported, shop_episode, written
from starlette.testclient import TestClient

from bestofq.core.actions import Answer, Click, Other
from bestofq.core.errors import ConfigError, DataError, SetupError
from bestofq.learning.checkpoint import CARD
from bestofq.recipes.judging import episodes_to_judge, judge_run
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedJudge
from bestofq.viewer.app import viewer_app


def test_every_field_is_kept(tmp_path: Path) -> None:
    record = shop_episode(2, id="own-7", judge="a careful reader", reason="it is blue", agent="shopper", site="uk")
    record["steps"][0] |= {"scores": [0.1, 0.9], "latency": 1.5}
    record["steps"][0]["observation"] |= {"error": "no such element"}
    (episode,) = imported("jsonl", written(tmp_path / "log.jsonl", record), tmp_path / "store")
    first, last = episode.steps
    assert (episode.run, episode.agent, episode.task.split) == ("imported", "shopper", "train")
    assert (episode.task.goal, episode.task.start_url) == ("buy the blue kettle no. 2", "http://shop.example/2")
    assert (episode.verdict.outcome, episode.verdict.reward) == ("success", 1.0)
    assert (episode.verdict.judge, episode.verdict.reason) == ("a careful reader", "it is blue")
    assert first.decision.chosen == 1
    assert [one.label for one in first.decision.candidates] == ["click link Red kettle", "click link Blue kettle"]
    assert first.decision.candidate.action == Click(mark=2)
    assert (first.decision.candidate.thought, first.decision.candidate.log_prob) == ("It is blue.", -0.5)
    assert first.decision.scores == (0.1, 0.9)
    assert first.observation.error == "no such element"
    assert (first.decision.log, episode.provenance.log) == ('{"latency": 1.5}', '{"site": "uk"}')
    assert (last.decision.candidate.action, last.terminated) == (Answer(text="bought"), True)
    assert last.observation.text == "Thank you for order 2"


def test_an_action_without_an_equivalent_stays_as_it_was_written_and_no_outcome_is_unjudged(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", {"goal": "zoom", "steps": [{"action": "pinch the map by 2.0"}]})
    (episode,) = imported("jsonl", log, tmp_path / "store")
    candidate = episode.steps[0].decision.candidate
    assert (candidate.action, candidate.label) == (Other(text="pinch the map by 2.0"), "pinch the map by 2.0")
    assert (episode.verdict.outcome, episode.verdict.reward) == ("unjudged", 0.0)


def test_an_import_again_adds_what_is_new(tmp_path: Path) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    same = shop_episode(1)
    first = counts(bestofq("import", "jsonl", written(log, same, same, shop_episode(2)), "--store", store))
    assert (first["episodes imported"], first["already there"]) == (3, 0)  # two passes may be equal
    moved = written(tmp_path / "elsewhere" / "other.jsonl", same, same, shop_episode(2), shop_episode(3))
    again = counts(bestofq("import", "jsonl", moved, "--store", store))
    assert (again["episodes imported"], again["already there"]) == (1, 3)
    with Store.open(store, read_only=True) as opened:
        assert len(list(opened.episodes())) == 4


def test_another_episode_with_an_id_is_refused_and_the_same_counts_once(tmp_path: Path) -> None:
    first, other = (shop_episode(number, id="0") for number in (2, 1))
    judged = {**first, "outcome": "failure"}
    log, store = written(tmp_path / "log.jsonl", first, first, other, judged), tmp_path / "store"
    for new in (1, 0):
        said = bestofq("import", "jsonl", log, "--store", store)
        assert "id 0: another episode has the same id" in said
        found = counts(said)
        assert (found["episodes imported"], found["already there"]) == (new, 2 - new)
        assert (found["malformed"], found["with an outcome"]) == (2, 1)
    said = bestofq("import", "jsonl", written(log, other, shop_episode(3)), "--store", store)
    assert (counts(said)["malformed"], counts(said)["episodes imported"]) == (1, 1)


def test_an_episode_that_has_changed_in_its_log_is_refused(tmp_path: Path) -> None:
    """What is printed is what the store has."""
    whole = shop_episode(2, id="e1")
    short, open_ = {**whole, "steps": whole["steps"][:1], "outcome": None}, {**whole, "outcome": None}
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    bestofq("import", "jsonl", written(log, short), "--store", store)
    for later, has in ((whole, "2, success"), (open_, "2, unjudged"), ({**short, "outcome": True}, "1, success")):
        written(log, later, shop_episode(3))
        said = bestofq("import", "jsonl", log, "--store", store)
        assert f"id e1: it has changed since it was imported (steps: 1, unjudged; now {has}" in said
        assert "another --run" in said
        found = counts(said)
        assert (found["malformed"], found["with an outcome"], found["steps"]) == (1, 1, 2)  # of the other episode
    assert counts(bestofq("import", "jsonl", log, "--store", store, "--run", "later"))["episodes imported"] == 2


def test_what_a_judge_said_of_a_stored_episode_is_no_change_of_its_log(tmp_path: Path) -> None:
    theirs = shop_episode(4, id="theirs", judge="a careful reader")
    log = written(tmp_path / "log.jsonl", shop_episode(1, id="open", outcome=None), theirs)
    bestofq("import", "jsonl", log, "--store", tmp_path / "store")
    with Store.open(tmp_path / "store") as store:
        ids = episodes_to_judge(store, "imported", judge := ScriptedJudge(lambda _: "failure"), which="all")
        asyncio.run(judge_run(store, ids, judge, concurrency=1))
    said = counts(bestofq("import", "jsonl", log, "--store", tmp_path / "store"))
    assert (len(ids), said["already there"], said["malformed"]) == (2, 2, 0)
    written(log, shop_episode(1, id="open", outcome=True), theirs)
    assert "(steps: 2, failure; now 2, success)" in bestofq("import", "jsonl", log, "--store", tmp_path / "store")


def test_malformed_lines_are_counted_and_named(tmp_path: Path) -> None:
    bad = (
        '{"goal": "cut off',
        {"steps": []},
        [],
        {"goal": "g", "steps": [{"action": "click [1]", "chosen": 5}]},
        {"goal": "g", "outcome": "splendid"},
        {"goal": "g", "steps": [{"candidates": "click [1]"}]},
        {"goal": "g", "steps": [{"candidates": {"action": "click [1]"}}]},
        {"goal": "g", "steps": [{"observation": {"screenshot": "lost.png"}, "action": "back"}]},
    )
    written(tmp_path / "a" / "b" / "log.jsonl", *bad, shop_episode(1))
    said = bestofq("import", "jsonl", tmp_path / "a", "--store", tmp_path / "s")
    found = counts(said)
    assert (found["malformed"], found["episodes imported"]) == (8, 1)
    assert "a/b/log.jsonl, line 1: " in said
    assert "log.jsonl, line 2: it has no 'goal'" in said
    assert "log.jsonl, line 3: " in said
    assert "line 4" not in said


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_what_windows_writes_is_read(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"goal": "Größe", "outcome": 1}\r\n{"goal": "ß", "outcome": 0}\r\n', encoding)
    found = {one.task.goal: one.verdict.outcome for one in imported("jsonl", log, tmp_path / "s")}
    assert found == {"Größe": "success", "ß": "failure"}


def test_the_import_says_what_has_no_outcome(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", {"goal": "look", "steps": [{"action": "back"}]})
    said = bestofq("import", "jsonl", log, "--store", tmp_path / "poor", "--run", "poor")
    assert counts(said)["without an outcome"] == 1
    assert "bestofq judge" in said
    assert "goal" not in said
    chat = written(tmp_path / "chat.jsonl", [{"role": "assistant", "content": "hello"}])
    assert "1 episode without a goal" in bestofq("import", "chat", chat, "--store", tmp_path / "chat")
    said = bestofq("import", "jsonl", written(log, shop_episode(2)), "--store", tmp_path / "rich")
    assert counts(said)["steps with several candidates"] == 1
    assert "bestofq judge" not in said


def test_what_is_wrong_is_one_sentence(tmp_path: Path) -> None:
    log, store = written(tmp_path / "log.jsonl", shop_episode(1)), tmp_path / "store"
    with pytest.raises(ConfigError, match="jsonl"):
        bestofq("import", "yaml", log, "--store", store)
    with pytest.raises(DataError, match=r"lost\.jsonl"):
        bestofq("import", "jsonl", tmp_path / "lost.jsonl", "--store", store)
    assert not store.exists()
    bestofq("import", "jsonl", log, "--store", store, "--split", "train")
    with pytest.raises(DataError, match="--split train"):
        bestofq("import", "jsonl", log, "--store", store, "--split", "test")


def test_a_reader_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def read(path):\n    yield from ({'goal': word, 'outcome': True} for word in path.read_text().split())\n"
    (tmp_path / "words_reader.py").write_text(code, "utf-8")
    monkeypatch.chdir(tmp_path)
    episodes = imported("words_reader:read", written(tmp_path / "log.txt", "one two"), tmp_path / "store")
    assert [(one.task.goal, one.verdict.outcome) for one in episodes] == [("one", "success"), ("two", "success")]


def test_a_reader_that_fails_is_named_with_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
def fails(path):
    yield {"goal": "one"}
    raise KeyError("reward")
def number(path):
    return 5
def lines(path):
    yield from path.read_text().splitlines()
    yield {"goal": "half \\ud83d", "id": 7}
    yield {"goal": "one"}
"""
    (tmp_path / "failing_readers.py").write_text(code, "utf-8")
    monkeypatch.chdir(tmp_path)
    log = written(tmp_path / "log.txt", "one two")
    for name, said in (("fails", r"record 2 of .*KeyError: 'reward'"), ("number", "record 1 of .*'int' object is not")):
        with pytest.raises(DataError, match=f"the reader failing_readers:{name} fails at {said}"):
            bestofq("import", f"failing_readers:{name}", log, "--store", tmp_path / name)
    found = bestofq("import", "failing_readers:lines", log, "--store", tmp_path / "lines")
    assert (counts(found)["malformed"], counts(found)["episodes imported"]) == (2, 1)
    assert "record 1: it is str: a reader gives mappings or bq.Episode" in found


def test_imported_episodes_teach_and_are_reported_and_shown(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", *(shop_episode(n, site="uk") for n in range(8)))
    store, q = tmp_path / "store", tmp_path / "q"
    bestofq("import", "jsonl", log, "--store", store, "--run", "logs")
    settings = ("iql.steps=5", "iql.batch_size=4", "iql.network.hidden=[8, 8]")
    said = bestofq("train", "--run", "logs", "--store", store, "--out", q, *(w for s in settings for w in ("--set", s)))
    assert "16 transitions" in said
    assert (q / CARD).exists()
    assert "50.0" in bestofq("report", store, "--table", "agents")
    with Store.open(store, read_only=True) as opened:
        page = TestClient(viewer_app(opened, name="logs"), base_url="http://127.0.0.1").get(
            f"/episode/{opened.summaries()[0].id}"
        )
    assert page.status_code == 200
    assert "Blue kettle" in page.text
    assert "site" in page.text  # what has no field of ours


def test_import_report_export_and_doctor(database: str, tmp_path: Path) -> None:
    log = written(tmp_path / "shop.jsonl", shop_episode(0), shop_episode(1))
    where = ("--store", database, "--files", tmp_path / "files")
    said = bestofq("import", "jsonl", log, *where)
    assert f"bestofq view {database} --files {tmp_path / 'files'}" in said.replace("\n", "")
    bestofq("report", *where, "--json", tmp_path / "tables", "--html", tmp_path / "html")
    assert list((tmp_path / "tables").glob("*.json"))
    bestofq(
        "export", "conversations", database, "--files", tmp_path / "files", "--out", tmp_path / "c.jsonl", "--failures"
    )
    assert "kettle" in (tmp_path / "c.jsonl").read_text("utf-8").lower()
    assert "All is as it was written" in bestofq("doctor", *where)


def test_where_a_store_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    log = written(tmp_path / "shop.jsonl", shop_episode(0))
    for store, files, error in (
        (tmp_path, tmp_path, ConfigError),
        ("mysql://host/db", tmp_path, ConfigError),
        ("postgresql+psycopg://127.0.0.1:1/nobody", tmp_path, SetupError),
    ):
        with pytest.raises(error, match=re.escape(str(store))):
            bestofq("import", "jsonl", log, "--store", store, "--files", files)
