"""Task files, hosts and splits of WebVoyager, on tasks of our own."""

import json
from pathlib import Path

import pytest

from bestofq.browser.guard import NetworkGuard, allows
from bestofq.cli.config import load_config
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.observation import Split, Task
from bestofq.envs.suites import make_suite
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.suite import COMPANIONS, WebVoyager, allowed_hosts, load_entries

LINE = {"web_name": "Soup Site", "id": "Soup Site--3", "ques": "Find a soup.", "web": "https://www.soup.example/"}
SPLITS: tuple[Split, ...] = ("train", "dev", "test")


def lines(folder: Path, *entries: object) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries) + "\n", "utf-8")
    return file


def entries(folder: Path, count: int) -> Path:
    look = {"ques": "Look.", "web": "http://a.example/"}
    return lines(folder, *({"web_name": f"Site {n % 3}", "id": str(n), **look} for n in range(count)))


def test_a_line_is_a_task(tmp_path: Path) -> None:
    data = lines(tmp_path, "", {**LINE, "more": 1})
    (task,) = WebVoyager(WebVoyagerSettings(data=data, allow=("cdn.example",))).list_tasks()
    assert task == Task(
        id="Soup Site--3",
        suite="webvoyager",
        goal="Find a soup.",
        start_url="https://www.soup.example/",
        split="test",
        allowed_hosts=("soup.example", "*.soup.example", "cdn.example"),
        group="www.soup.example",
    )


@pytest.mark.parametrize(
    ("allow", "hosts"),
    [
        ("task", ("soup.example", "*.soup.example")),
        ("['cdn.example', '*.cdn.example']", ("soup.example", "*.soup.example", "cdn.example", "*.cdn.example")),
        ("any", ()),
    ],
)
async def test_the_settings_say_which_hosts_a_task_reaches(tmp_path: Path, allow: str, hosts: tuple[str, ...]) -> None:
    given = ["suite.name=webvoyager", f"suite.data={lines(tmp_path, LINE)}", f"suite.allow={allow}"]
    (task,) = await make_suite(load_config(BestOfQSettings, None, given).suite).tasks("test")
    assert task.allowed_hosts == hosts


def test_a_word_that_is_no_way_to_allow_hosts_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"suite\.allow"):
        load_config(BestOfQSettings, None, ["suite.name=webvoyager", "suite.allow=all"])


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{"web_name": ', "line 2: Invalid JSON"),
        ("[1]", "line 2: Input should be an object"),
        ({**LINE, "id": ""}, "line 2: id: "),
        ({"id": "a", "ques": "b", "web": "http://c/"}, "line 2: web_name: Field required"),
        ({**LINE, "id": "x", "web": "soup.example"}, "line 2: web: .*'soup.example'"),
        ({**LINE, "id": "x", "web": "http://[soup/"}, "line 2: web: "),
        (LINE, "line 2: the id 'Soup Site--3' is in line 1 already"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, entry: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        load_entries(lines(tmp_path, LINE, entry))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 0 tasks"):
        load_entries(lines(tmp_path, ""))
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        load_entries(tmp_path / "nothing.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"cannot read .*utf-8"):
        load_entries(tmp_path / "binary")


def test_a_task_reaches_its_own_site_and_no_other() -> None:
    hosts = allowed_hosts("GitHub", "https://github.com/")
    assert allows(hosts, "https://docs.github.com/en")
    assert allows(hosts, "https://avatars.githubusercontent.com/u/1")
    assert not allows(hosts, "https://github.com.evil.example/")
    assert not allows(allowed_hosts("Cambridge", "https://dictionary.cambridge.org/"), "https://cambridge.example/")
    assert allowed_hosts("Local", "http://127.0.0.1:8000/") == ("127.0.0.1",)
    assert allowed_hosts("Local", "http://[::1]:8000/") == ("[::1]",)
    assert allowed_hosts("Google Search", "https://www.google.com/") == ()  # its results lead anywhere
    assert allowed_hosts("Google Map", "https://www.google.com/maps/")[:2] == ("google.com", "*.google.com")
    guard = NetworkGuard()
    for host in COMPANIONS:  # each is a host as the guard understands it
        guard.proxy(allowed_hosts("any", f"https://www.{host}/"))
    guard.close()


def test_without_holdout_every_split_is_all_tasks(tmp_path: Path) -> None:
    suite = WebVoyager(WebVoyagerSettings(data=entries(tmp_path, 30)))
    for split in SPLITS:
        tasks = suite.list_tasks(split)
        assert len({task.id for task in tasks}) == 30
        assert {task.split for task in tasks} == {split}
    assert [task.id for task in suite.list_tasks("train")] == [task.id for task in suite.list_tasks("test")]
    assert [task.id for task in suite.list_tasks()] != sorted(task.id for task in suite.list_tasks())


def test_held_out_tasks_stay_apart_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    def ids(count: int, split: Split) -> set[str]:
        return {
            task.id
            for task in WebVoyager(WebVoyagerSettings(data=entries(tmp_path, count), holdout=True)).list_tasks(split)
        }

    parts = [ids(300, split) for split in SPLITS]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 300
    assert [len(part) for part in parts] == pytest.approx([180, 60, 60], abs=25)
    for split, part in zip(SPLITS, parts, strict=True):
        assert ids(200, split) < part
