"""Stored episodes as other tools read them: Parquet and JSON lines by `datasets`, and ATIF there and back."""

import asyncio
import json
import sys
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from logs import bestofq, picture, shop_episode, written
from pyarrow import parquet

import bestofq as bq
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Step, Verdict
from bestofq.core.errors import DataError, InputError, SetupError
from bestofq.core.observation import Box, Element, Observation
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Usage
from bestofq.interop import rows
from bestofq.interop.atif import Exported
from bestofq.interop.files import Malformed
from bestofq.interop.importing import READERS
from bestofq.interop.nouns import picture_of
from bestofq.store.store import Store
from bestofq.testing import ScriptedProposer, ScriptedScorer


def scored_episode(number: int) -> dict[str, Any]:
    """As `shop_episode`, its first step scored by a Q-function."""
    record = shop_episode(number)
    record["steps"][0] |= {"scores": [0.25, 0.75], "state_value": 0.5, "scorer": "QScorer", "checkpoint": "c0"}
    record["steps"][0]["usage"] = [{"role": "proposer", "tokens_in": 10, "tokens_out": 4, "usd": 0.5}]
    return record


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two successes and two failures, in the run `logs`."""
    log = written(tmp_path / "log.jsonl", *map(scored_episode, range(4)))
    bestofq("import", "jsonl", log, "--store", tmp_path / "store", "--run", "logs")
    return tmp_path / "store"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_steps_have_all_candidates(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are more than are held at once."""
    monkeypatch.setattr(rows, "_AT_ONCE", 5)
    said = bestofq("export", "steps", store, "--out", tmp_path / "steps.parquet")
    assert said == f"8 steps written to {tmp_path / 'steps.parquet'}\n"
    table = parquet.read_table(tmp_path / "steps.parquet").to_pylist()
    assert len(table) == 8
    (first,) = (row for row in table if row["goal"] == "buy the blue kettle no. 2" and row["step"] == 0)
    assert (first["run"], first["outcome"], first["episode_reward"]) == ("logs", "success", 1.0)
    assert first["observation"] == "Red kettle [1]\nBlue kettle [2]"
    assert (first["state_value"], first["scorer"], first["checkpoint"]) == (0.5, "QScorer", "c0")
    assert (first["tokens_in"], first["tokens_out"], first["usd"]) == (10, 4, 0.5)
    red, blue = first["candidates"]
    assert (red["action"], red["mark"], red["q"], red["chosen"]) == ("click [1]", 1, 0.25, False)
    assert (blue["action"], blue["label"], blue["reasoning"]) == ("click [2]", "click link Blue kettle", "It is blue.")
    assert (blue["log_prob"], blue["score"], blue["q"], blue["chosen"]) == (-0.5, 0.75, 0.75, True)
    (last,) = (row for row in table if row["episode"] == first["episode"] and row["step"] == 1)
    assert (last["candidates"][0]["q"], last["candidates"][0]["score"], last["tokens_in"]) == (None, 0.0, None)
    bestofq("export", "steps", store, "--out", tmp_path / "steps.jsonl")
    assert lines(tmp_path / "steps.jsonl") == table


def test_conversations_are_what_trl_reads(store: Path, tmp_path: Path) -> None:
    """By `datasets` from both formats, and by TRL's own check."""
    import datasets  # it and TRL take seconds to import
    from trl.data_utils import is_conversational

    bestofq("export", "conversations", store, "--out", tmp_path / "talks.jsonl")
    bestofq("export", "conversations", store, "--out", tmp_path / "all.parquet", "--failures")
    cache = str(tmp_path / "cache")
    talks = datasets.load_dataset("json", data_files=str(tmp_path / "talks.jsonl"), cache_dir=cache)["train"]
    both = datasets.load_dataset("parquet", data_files=str(tmp_path / "all.parquet"), cache_dir=cache)["train"]
    assert (len(talks), len(both)) == (2, 4)
    assert {*talks["outcome"]} == {"success"}
    assert all(is_conversational(data[0]) for data in (talks, both))
    (talk,) = (row["messages"] for row in talks if "no. 2" in row["goal"])
    assert [message["role"] for message in talk] == ["user", "assistant"] * 2
    assert talk[0]["content"] == "goal: buy the blue kettle no. 2\npage:\nRed kettle [1]\nBlue kettle [2]\n"
    assert talk[1]["content"] == "It is blue.\nclick [2]"
    assert talk[3]["content"] == 'answer "bought"'


async def test_pairs_of_a_tree_have_the_history_of_their_node(tmp_path: Path) -> None:
    """Two nodes with two children each; Q = 0.5 · value + 0.5 · prior. At the root 0.7 and 0.2, below 0.45 and 0.4."""
    from trl.data_utils import is_conversational

    page = Observation(url="/", title="", text="A [1] B [2]", elements=())
    kinds = [Candidate(action=Click(mark=mark), label=f"click {name}") for mark, name in ((1, "A"), (2, "B"))]
    task = bq.Task(id="one", suite="s", goal="find it", start_url="/", split="train")
    tree = SearchTree(
        task=task,
        parent=(-1, 0, 0, 1, 1),
        depth=(0, 1, 1, 2, 2),
        visits=(4, 3, 1, 1, 1),
        value=(0.5, 0.6, 0.2, 0.4, 0.3),
        prior=(None, 0.8, 0.2, 0.5, 0.5),
        reward=(0.0,) * 5,
        ending=("open", "open", "ended", "ended", "ended"),
        expanded=(True, True, False, False, False),
        candidate=(None, *kinds, *kinds),
        page=(0, 1, -1, -1, -1),
        pages=(page, page.model_copy(update={"text": "C [1] D [2]"})),
    )
    with Store.open(tmp_path / "store") as opened:
        await opened.begin_run("search", {}, Provenance(version="1"))
        await opened.trees.save("search", tree)
    bestofq("export", "preferences", tmp_path / "store", "--out", tmp_path / "p.jsonl", "--threshold", "0.01")
    root, below = lines(tmp_path / "p.jsonl")
    assert is_conversational(root)
    assert root["margin"] == pytest.approx(0.5)
    assert (root["chosen"][0]["content"], root["rejected"][0]["content"]) == ("click [1]", "click [2]")
    assert root["prompt"] == [{"role": "user", "content": "goal: find it\npage:\nA [1] B [2]\n"}]
    assert below["margin"] == pytest.approx(0.05)
    assert below["prompt"][0]["content"] == "goal: find it\ndid: click A\npage:\nC [1] D [2]\n"
    bestofq("export", "preferences", tmp_path / "store", "--out", tmp_path / "p.jsonl")  # threshold 0.2
    assert [row["margin"] for row in lines(tmp_path / "p.jsonl")] == [root["margin"]]


def test_what_cannot_be_written_leaves_the_earlier_file(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path / "out.parquet"
    bestofq("export", "steps", store, "--out", out)
    before = out.read_bytes()
    with pytest.raises(DataError, match="its runs are logs"):
        bestofq("export", "steps", store, "--out", out, "--run", "none")
    with pytest.raises(DataError, match="bestofq search"):
        bestofq("export", "preferences", store, "--out", out)
    with pytest.raises(InputError, match=r"\.parquet or \.jsonl"):
        bestofq("export", "steps", store, "--out", tmp_path / "out.csv")
    with pytest.raises(InputError, match="--alpha"):
        bestofq("export", "steps", store, "--out", out, "--alpha", "0.5")
    with pytest.raises(InputError, match="new folder"):
        bestofq("export", "atif", store, "--out", store)
    with pytest.raises(InputError, match="new folder"), chdir(made := tmp_path_factory.mktemp("empty")):
        bestofq("export", "atif", store, "--out", ".")
    assert not [*made.iterdir()]
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"pip install 'bestofq\[export\]'"):
        bestofq("export", "steps", store, "--out", out)
    assert out.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"log.jsonl", "store", "out.parquet"}


# ---- ATIF


def there_and_back(store: Path, out: Path) -> tuple[list[Episode], list[Episode]]:
    """The store's episodes with their pictures, and what its export is read as, both by id."""
    bestofq("export", "atif", store, "--out", out)
    with Store.open(store, read_only=True) as opened:
        ours = [with_pictures(opened, episode) for episode in opened.episodes()]
    found = list(READERS["atif"](out))
    assert all(isinstance(one, Exported) for one in found)
    read = [Episode(**{name: getattr(one, name) for name in Episode.model_fields}) for one in found]
    return sorted(ours, key=lambda one: one.id), sorted(read, key=lambda one: one.id)


def with_pictures(store: Store, episode: Episode) -> Episode:
    def loaded(page: Observation | None) -> Any:
        shot = page and page.screenshot
        return page.model_copy(update={"screenshot": store.screenshots.load(shot)}) if page and shot else page

    steps = tuple(step.model_copy(update={"observation": loaded(step.observation)}) for step in episode.steps)
    return episode.model_copy(update={"steps": steps, "final": loaded(episode.final)})


async def test_atif_gives_back_what_we_collected(tmp_path: Path) -> None:
    def reply(state: bq.State, n: int) -> list[str]:
        elements = state.observation.elements
        bought = [f"click [{e.mark}]" for e in elements if e.name.startswith(("$", "Buy Now"))]
        return (bought or [f'so\nwrite [1] "{state.task.goal}" enter', "click [1]"])[:n]

    def scores(state: bq.State, candidates: Any) -> list[float]:
        return [float("inf") if number == 0 else -0.1 * number for number in range(len(candidates))]

    agent = bq.Agent(name="own", proposer=ScriptedProposer(reply), scorer=ScriptedScorer(scores), n_candidates=3)
    with Store.open(tmp_path / "store") as opened:
        await bq.play(agent, bq.load_suite("webshop"), opened, tasks=6)
    ours, read = there_and_back(tmp_path / "store", tmp_path / "out")
    assert len(ours) == 6
    assert any(len(step.decision.candidates) == 3 for episode in ours for step in episode.steps)
    assert read == ours

    record = json.loads((tmp_path / "out" / f"{ours[0].id}.json").read_text("utf-8"))
    assert record["schema_version"] == "ATIF-v1.7"
    goal, first = record["steps"][:2]
    assert (goal["source"], goal["message"]) == ("user", ours[0].task.goal)
    assert goal["observation"]["results"][0]["content"] == ours[0].steps[0].observation.text
    assert first["tool_calls"][0]["function_name"] == "write"
    assert first["reasoning_content"] == "so"
    assert [one["label"] for one in first["extra"]["bestofq"]["candidates"]] == [
        candidate.label for candidate in ours[0].steps[0].decision.candidates
    ]


async def test_atif_gives_back_pictures_and_every_field(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture(8, 6))
    shot = picture_of("red.png", tmp_path)
    assert shot is not None
    page = Observation(
        url="/",
        title="ü",
        text="Über [1]",
        elements=(Element(mark=1, role="link", name="Über", box=Box(1, 2.5, 3, 4), states=("checked",)),),
        screenshot=shot.model_copy(update={"scale": 2.0}),
        tabs=("a", "b"),
        error="no",
        notices=("yes",),
        refused=("x.example",),
    )
    decision = Decision(
        candidates=(
            Candidate(action=Click(target="the link", point=(1, 2)), label="a", reply_ids=(1, 2), prompt_hash="p"),
            Candidate(action=Click(mark=1), label="b", thought="t", log_prob=-1.5, votes=2, status="done"),
        ),
        scores=(0.1, 0.2),
        chosen=1,
        visits=(1, 3),
        feedback=(None, 0.5),
        usage=(Usage(role="critic", tokens_in=3), Usage(role="proposer", usd=0.1, seconds=0.5)),
        log='{"a": 1}',
    )
    episode = Episode(
        id="odd/one",
        run="r",
        agent="a",
        task=bq.Task(id="t", suite="s", goal="", start_url="/", split="dev", allowed_hosts=("h",), seed=4),
        steps=(Step(index=0, observation=page, decision=decision, reward=0.5, terminated=True),),
        final=page,
        verdict=Verdict(reward=0.5, outcome="failure", judge="j", reason="why", replies=("x",)),
        provenance=Provenance(version="1", seed=3, command="c", log="{}"),
    )
    others = [
        episode.model_copy(update={"id": "unfinished", "final": None, "agent": "b"}),
        episode.model_copy(update={"id": "stepless", "steps": (), "agent": "c"}),
        episode.model_copy(update={"id": "nothing", "steps": (), "final": None, "agent": "d"}),
    ]
    with Store.open(tmp_path / "store") as opened:
        await opened.begin_run("r", {}, Provenance(version="1"))
        for one in (episode, *others):
            await opened.add_episode(one, 0)
    ours, read = there_and_back(tmp_path / "store", tmp_path / "out")
    assert len(ours) == 4
    assert read == ours
    for file in (tmp_path / "out" / "screenshots").iterdir():
        file.unlink()
    (gone,) = (one for one in READERS["atif"](tmp_path / "out") if isinstance(one, Episode) and one.id == "unfinished")
    assert gone.steps[0].observation == page.model_copy(update={"screenshot": None})


def test_atif_gives_back_what_was_imported(store: Path, tmp_path: Path) -> None:
    """Of our JSON lines, and of a trajectory of another tool; also through a second store."""
    steps = [
        {"source": "user", "message": "buy a kettle"},
        {"source": "agent", "message": "", "tool_calls": [{"function_name": "spin", "arguments": {"by": 2}}]},
        {"source": "agent", "message": "It is bought.", "metrics": {"prompt_tokens": 12}},
    ]
    log = written(tmp_path / "other.json", {"schema_version": "ATIF-v1.7", "agent": {"name": "x"}, "steps": steps})
    bestofq("import", "atif", log, "--store", store, "--run", "other")
    ours, read = there_and_back(store, tmp_path / "out")
    assert {one.run for one in ours} == {"logs", "other"}
    assert read == ours
    (other,) = (one.id for one in ours if one.run == "other")
    spun = json.loads((tmp_path / "out" / f"{other}.json").read_text("utf-8"))["steps"][1]
    assert spun["tool_calls"][0]["arguments"] == {"text": 'spin {"by": 2}'}
    bestofq("import", "atif", tmp_path / "out", "--store", tmp_path / "second", "--run", "again", "--split", "dev")
    with Store.open(tmp_path / "second", read_only=True) as opened:
        again = {(one.agent, one.task.id): one for one in opened.episodes()}
    for one in ours:
        same = again[one.agent, one.task.id]
        assert (same.steps, same.final, same.verdict) == (one.steps, one.final, one.verdict)
        assert (same.run, same.task.split) == ("again", "dev")


def add_copies(store: Path, *episodes: tuple[str, str, str, str, str, int]) -> None:
    """Store copies of the first episode, by run, agent, task, split, outcome and pass. Their ids are in no order."""

    async def add() -> None:
        with Store.open(store) as opened:
            one = next(opened.episodes())
            for number, (run, agent, task, split, outcome, repeat) in enumerate(episodes):
                await opened.begin_run(run, {}, one.provenance)
                of = one.task.model_copy(update={"id": task, "split": split})
                verdict = one.verdict.model_copy(update={"outcome": outcome})
                new = {"id": f"{number * 7919 % 97}", "run": run, "agent": agent, "task": of, "verdict": verdict}
                await opened.add_episode(one.model_copy(update=new), repeat)

    asyncio.run(add())


def test_atif_gives_back_passes_and_splits_where_the_import_names_none(store: Path, tmp_path: Path) -> None:
    """Two agents in three passes over two tasks; one pass lacks an episode."""
    passes = product(range(3), (("t0", "dev"), ("t1", "test")), "ab")
    episodes = [("passes", agent, *task, "success", repeat) for repeat, task, agent in passes]
    add_copies(store, *(one for one in episodes if one[1:] != ("a", "t0", "dev", "success", 1)))

    def held(store: Path, run: str) -> list[tuple[Any, ...]]:
        with Store.open(store, read_only=True) as opened:
            return [(one.agent, one.task, one.repeat, one.split) for one in opened.summaries(run=run)]

    bestofq("export", "atif", store, "--out", tmp_path / "out", "--run", "passes")
    again = tmp_path / "again"
    bestofq("import", "atif", tmp_path / "out", "--store", again)
    assert held(again, "imported") == held(store, "passes")
    assert len(held(again, "imported")) == 11
    bestofq("import", "atif", tmp_path / "out", "--store", again, "--run", "train", "--split", "train")
    assert {one[-1] for one in held(again, "train")} == {"train"}
    for file in (tmp_path / "out").glob("*.json"):  # as another run's, of the same tasks
        record = json.loads(file.read_text("utf-8"))
        record["extra"]["bestofq"]["id"] += "-"
        file.write_text(json.dumps(record), "utf-8")
    bestofq("import", "atif", tmp_path / "out", "--store", again)
    both = [one[2] for one in held(again, "imported") if one[:2] == ("a", "t0")]
    assert (len(held(again, "imported")), sorted(both)) == (22, [0, 2, 3, 4])


def test_atif_of_two_runs_keeps_their_passes_apart(store: Path, tmp_path: Path) -> None:
    """One agent in two passes over three tasks, in a run that succeeds and one that fails."""
    runs = product((("good", "success"), ("bad", "failure")), range(3), range(2))
    add_copies(store, *((run, "x", f"t{task}", "train", outcome, repeat) for (run, outcome), task, repeat in runs))
    bestofq("export", "atif", store, "--out", tmp_path / "out", "--agent", "x")
    bestofq("import", "atif", tmp_path / "out", "--store", tmp_path / "again")
    with Store.open(tmp_path / "again", read_only=True) as opened:
        found = sorted((one.repeat, one.outcome) for one in opened.summaries())
    assert found == sorted([(0, "failure"), (1, "failure"), (2, "success"), (3, "success")] * 3)


def test_a_trajectory_whose_candidates_were_cut_off_is_refused(store: Path, tmp_path: Path) -> None:
    bestofq("export", "atif", store, "--out", tmp_path / "out")
    file = min((tmp_path / "out").iterdir())
    record = json.loads(file.read_text("utf-8"))
    del record["steps"][1]["extra"]
    (found,) = READERS["atif"](written(tmp_path / "cut.json", record))
    assert isinstance(found, Malformed)
    assert "of its 2 steps 1 have candidates" in found.reason
