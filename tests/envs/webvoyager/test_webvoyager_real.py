"""WebVoyager's published files, where their folder is given."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from bestofq.core.observation import Split
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.suite import WebVoyager, load_entries

SIBLING = Path(__file__).parents[3].parent / "shared" / "data" / "webvoyager"
FOLDER = Path(os.environ.get("BESTOFQ_WEBVOYAGER_DATA", SIBLING))
PATCHED, PUBLISHED = FOLDER / "patchedTasks.jsonl", FOLDER / "WebVoyager_data.jsonl"
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
TABLE_5 = {
    "Allrecipes": 40,
    "Amazon": 38,
    "Apple": 34,
    "ArXiv": 42,
    "BBC News": 34,
    "Booking": 40,
    "Cambridge Dictionary": 43,
    "Coursera": 40,
    "ESPN": 41,
    "GitHub": 39,
    "Google Flights": 39,
    "Google Map": 38,
    "Google Search": 40,  # Table 5 has 40 of Bing-Search
    "Huggingface": 36,
    "Wolfram Alpha": 46,
}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"WebVoyager's files are not in {FOLDER}: set BESTOFQ_WEBVOYAGER_DATA to their folder"
)


def test_the_590_have_the_domains_of_table_5() -> None:
    assert Counter(entry.web_name for entry in load_entries(PATCHED)) == TABLE_5
    assert len(WebVoyager(WebVoyagerSettings(data=PATCHED)).list_tasks("train")) == 590
    assert len(load_entries(PUBLISHED)) == 643


def test_both_lists_are_split_alike_and_every_domain_has_its_share() -> None:
    def split_of(path: Path) -> dict[str, Split]:
        suite = WebVoyager(WebVoyagerSettings(data=path, holdout=True))
        return {task.id: split for split in SPLITS for task in suite.list_tasks(split)}

    patched, published = split_of(PATCHED), split_of(PUBLISHED)
    assert len(patched) == 590
    assert patched.items() <= published.items()
    assert {(task.rpartition("--")[0], split) for task, split in patched.items()} == {
        (domain, split) for domain in TABLE_5 for split in SPLITS
    }


def test_no_reference_answer_reaches_a_task() -> None:
    domains = json.loads((FOLDER / "reference_answer.json").read_text("utf-8"))
    answers = {f"{name}--{one['id']}": one["ans"] for name, domain in domains.items() for one in domain["answers"]}
    tasks = WebVoyager(WebVoyagerSettings(data=PUBLISHED)).list_tasks()
    assert len(answers.keys() & {task.id for task in tasks}) > 600
    shown = "\n".join(task.model_dump_json() for task in tasks)
    assert not any(answer in shown for answer in answers.values() if len(answer) > 20)
